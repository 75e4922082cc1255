# What is asked for. Nothing here is secret: clouds take credentials from their own environment.
variable "name" {
  type        = string
  default     = "gpufleet-node"
  description = "Image names and families start with it."
}

variable "only_check" {
  type        = bool
  default     = false
  description = "Go through the roles in check mode: nothing is changed on the machine."
}

variable "ansible_playbook" {
  type        = string
  default     = "../.venv/bin/ansible-playbook"
  description = "The project's own Ansible, seen from playbooks/."
}

variable "play" {
  type        = string
  default     = "image.yml"
  description = "The playbook of playbooks/ that makes a machine an image."
}

variable "node_variables" {
  type        = string
  default     = ""
  description = "A file of variables, such as python -m gpufleet.nodes.template_vars STACK TEMPLATE prints."
}

variable "host_keys" {
  type        = string
  default     = "accept-new"
  description = "A machine that was made a minute ago shows its key for the first time; give yes where it is known."
}

variable "known_hosts" {
  type        = string
  default     = "/dev/null"
  description = "The file of known host keys that goes with it."
}

variable "ssh_from" {
  type        = list(string)
  default     = ["0.0.0.0/0"]
  description = "Networks that may reach the machine by SSH while it is built (AWS): yours, where you know it."
}

variable "aws_region" {
  type    = string
  default = "us-east-1"
}

variable "aws_machine" {
  type    = string
  default = "g5.2xlarge"
}

variable "gcp_project" {
  type    = string
  default = "set-gcp-project"
}

variable "gcp_zone" {
  type    = string
  default = "us-central1-a"
}

variable "gcp_machine" {
  type    = string
  default = "g2-standard-4"
}

variable "azure_subscription" {
  type    = string
  default = "00000000-0000-0000-0000-000000000000"
}

variable "azure_client" {
  type        = string
  default     = "00000000-0000-0000-0000-000000000000"
  description = "The service principal; its secret comes from the variable ARM_CLIENT_SECRET of your shell."
}

variable "azure_tenant" {
  type    = string
  default = "00000000-0000-0000-0000-000000000000"
}

variable "azure_secret" {
  type      = string
  default   = env("ARM_CLIENT_SECRET")
  sensitive = true
}

variable "azure_resource_group" {
  type    = string
  default = "gpufleet-images"
}

variable "azure_region" {
  type    = string
  default = "eastus"
}

variable "azure_machine" {
  type    = string
  default = "Standard_NC4as_T4_v3"
}

variable "host" {
  type        = string
  default     = "198.18.0.11"
  description = "The machine of the source null: one that is there already, such as a rehearsed host."
}

variable "host_user" {
  type    = string
  default = "root"
}

variable "host_key_file" {
  type    = string
  default = ""
}
