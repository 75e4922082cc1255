"""The Pulumi program of every stack: build the fleet that stacks/Pulumi.<stack>.yaml declares."""

from gpufleet import cloud

cloud.declare_stack()
