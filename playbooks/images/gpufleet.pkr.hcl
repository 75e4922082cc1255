# Images that pools boot ready: the same roles that configure a node, run once on a machine that becomes an image.
# The base images are those of modules/gpufleet/cloud/images.py; a test holds them together.
locals {
  stamp      = formatdate("YYYYMMDD-hhmmss", timestamp())
  image      = "${var.name}-${local.stamp}"
  playbooks  = "${path.root}/.."
  asks       = var.node_variables == "" ? [] : ["--extra-vars", "@${var.node_variables}"]
  check      = var.only_check ? ["--check"] : []
  ssh_checks = "-o StrictHostKeyChecking=${var.host_keys} -o UserKnownHostsFile=${var.known_hosts}"
}

source "amazon-ebs" "node" {
  region        = var.aws_region
  instance_type = var.aws_machine
  ami_name      = local.image
  ssh_username  = "ubuntu"
  encrypt_boot  = true

  temporary_security_group_source_cidrs = var.ssh_from

  source_ami_filter {
    owners      = ["099720109477"]
    most_recent = true
    filters = {
      name                = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*"
      architecture        = "x86_64"
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }
  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = 60
    volume_type           = "gp3"
    iops                  = 3000 # what a gp3 volume has without being asked; Packer 1.6 wants to be told
    throughput            = 125
    delete_on_termination = true
  }
  tags = {
    Name           = local.image
    gpufleet-image = var.name
  }
}

source "googlecompute" "node" {
  project_id              = var.gcp_project
  zone                    = var.gcp_zone
  machine_type            = var.gcp_machine
  source_image_project_id = ["ubuntu-os-cloud"]
  source_image_family     = "ubuntu-2204-lts"
  image_name              = local.image
  image_family            = var.name
  ssh_username            = "ubuntu"
  on_host_maintenance     = "TERMINATE"
  disk_size               = 60
  image_labels = {
    gpufleet-image = var.name
  }
}

source "azure-arm" "node" {
  subscription_id                   = var.azure_subscription
  client_id                         = var.azure_client
  client_secret                     = var.azure_secret
  tenant_id                         = var.azure_tenant
  location                          = var.azure_region
  vm_size                           = var.azure_machine
  os_type                           = "Linux"
  image_publisher                   = "Canonical"
  image_offer                       = "0001-com-ubuntu-server-jammy"
  image_sku                         = "22_04-lts-gen2"
  managed_image_name                = local.image
  managed_image_resource_group_name = var.azure_resource_group
  ssh_username                      = "ubuntu"
  azure_tags = {
    gpufleet-image = var.name
  }
}

# No image comes of it: the roles run on a machine that is there, which is how they are tried out.
source "null" "node" {
  ssh_host             = var.host
  ssh_username         = var.host_user
  ssh_private_key_file = var.host_key_file
  ssh_timeout          = "2m"
}

build {
  sources = ["source.amazon-ebs.node", "source.googlecompute.node", "source.azure-arm.node", "source.null.node"]

  # A cloud's first boot holds the package manager's lock; a machine without cloud-init has nothing to wait for.
  provisioner "shell" {
    inline = ["if command -v cloud-init > /dev/null; then cloud-init status --wait; fi"]
  }

  provisioner "ansible" {
    command       = "${local.playbooks}/${var.ansible_playbook}"
    playbook_file = "${local.playbooks}/${var.play}"
    use_proxy     = false
    extra_arguments = concat(
      ["--extra-vars", jsonencode({ image_name = local.image })],
      local.asks,
      local.check
    )
    ansible_env_vars = [
      "ANSIBLE_CONFIG=${local.playbooks}/ansible.cfg",
      "ANSIBLE_ROLES_PATH=${local.playbooks}/roles",
      "ANSIBLE_SSH_ARGS=-o ControlMaster=auto -o ControlPersist=60s ${local.ssh_checks}"
    ]
  }
}
