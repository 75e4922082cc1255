# Copyright: gpufleet contributors
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation that several modules share."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = """
author: gpufleet contributors
attributes:
  check_mode: {description: Whether the module can run in check mode., support: full}
"""

    # Modules that an action plugin replaces.
    CONTROLLER = """
author: gpufleet contributors
notes:
  - Runs on the controller and changes nothing.
attributes:
  check_mode: {description: Whether the module can run in check mode., support: full}
"""

    # The option ``files``; a module adds whether it is required.
    FILES = """
options:
  files:
    description: The files, in order.
    type: list
    elements: dict
    suboptions:
      path: {description: "Absolute path; C(~USER/) is the home of a user of the host.", type: path, required: true}
      state:
        description: >-
          C(file) has exactly I(content); C(lines) has each of I(lines) and no other line that matches one of I(remove);
          C(json) merges I(content) into the existing object (a null removes a key); C(directory) is a folder;
          C(link) points to I(target), which must exist; C(absent) does not exist.
        type: str
        choices: [file, lines, json, directory, link, absent]
        default: file
      content: {description: The whole content., type: str}
      lines: {description: Required lines; missing ones are added at the end., type: list, elements: str}
      remove: {description: Python regular expressions searched in each line., type: list, elements: str}
      target: {description: What the link points to., type: str}
      mode: {description: Octal permissions., type: str}
      owner: {description: User name., type: str, default: root}
      group: {description: Group name; by default the owner's primary group., type: str}
      validate:
        description: Command and arguments; C({}) becomes the path of the candidate. A status other than 0 rejects it.
        type: list
        elements: str
"""
