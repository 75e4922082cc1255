# For Packer from 1.7 on, whose plugins come apart: copy this file beside gpufleet.pkr.hcl, then `packer init .`.
# Packer 1.6, as Debian has it, brings these plugins and knows no required_plugins, so the file waits here.
packer {
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.0.0"
    }
    googlecompute = {
      source  = "github.com/hashicorp/googlecompute"
      version = ">= 1.0.0"
    }
    azure = {
      source  = "github.com/hashicorp/azure"
      version = ">= 1.0.0"
    }
    ansible = {
      source  = "github.com/hashicorp/ansible"
      version = ">= 1.0.0"
    }
  }
}
