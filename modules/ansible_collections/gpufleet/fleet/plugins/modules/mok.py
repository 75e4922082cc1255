# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ask the firmware, once, to enrol the key that DKMS signs kernel modules with."""

from __future__ import annotations

DOCUMENTATION = """
module: mok
short_description: Request the enrolment of DKMS' signing key under secure boot
description:
  - Finds the certificate that DKMS signs with and reads from C(mokutil) whether it is enrolled. A key that is enrolled
    or already requested is not requested again. A person confirms a request at the console during the next boot, with
    the one-time password.
  - The password goes to mokutil through its standard input. It is on no command line and in no file.
options:
  certificates: {description: Paths of DKMS' certificate; the first that exists is used., type: list, elements: path,
                 required: true}
  password: {description: "One-time password, 8 to 16 characters. Empty requests nothing.", type: str, default: ""}
extends_documentation_fragment: [gpufleet.fleet.common]
"""

EXAMPLES = """
- name: Request enrolment of the DKMS signing key
  gpufleet.fleet.mok:
    certificates: [/var/lib/dkms/mok.pub]
    password: "{{ nvidia_driver_mok_password }}"
"""

RETURN = """
state:
  description: One of C(not_needed), C(no_key), C(enrolled), C(pending), C(password_missing), C(cannot).
  returned: always
  type: str
certificate: {description: Path of the certificate; empty if there is none., returned: always, type: str}
not_applied: {description: "What is left to do, and who must do it; empty if nothing is.", returned: always, type: str}
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402 - Ansible wants its documentation above the imports

from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_restart import (  # noqa: E402
    CONSOLE_INSTRUCTIONS,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils.mokutil import (  # noqa: E402
    SECURE_BOOT,
    find_certificate,
    read_mok_key_state,
    run_mokutil,
)

MIN_PASSWORD_LENGTH = 8
MAX_PASSWORD_LENGTH = 16


def exit_with_enrollment_state(
    module: AnsibleModule, state: str, certificate: str = "", not_applied: str = "", changed: bool = False
) -> None:
    module.exit_json(changed=changed, state=state, certificate=certificate, not_applied=not_applied)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "certificates": {"type": "list", "elements": "path", "required": True},
            "password": {"type": "str", "default": "", "no_log": True},
        },
        supports_check_mode=True,
    )
    password = module.params["password"]
    if password and not MIN_PASSWORD_LENGTH <= len(password) <= MAX_PASSWORD_LENGTH:
        module.fail_json(msg=f"the one-time password must have 8 to 16 characters, got {len(password)}")
    if module.get_bin_path("mokutil") is None:
        exit_with_enrollment_state(
            module, "cannot", not_applied="mokutil is not installed: whether the key is enrolled is unknown"
        )
    secure = run_mokutil(module, "--sb-state")
    if SECURE_BOOT not in secure:
        unclear = "" if "SecureBoot disabled" in secure else f"secure boot: {secure}"
        exit_with_enrollment_state(module, "cannot" if unclear else "not_needed", not_applied=unclear)
    certificate = find_certificate(module.params["certificates"])
    if certificate is None:
        paths = " or ".join(module.params["certificates"])
        not_applied = (
            f"there is no certificate at {paths}: DKMS creates it with the first module that it builds"
        )
        exit_with_enrollment_state(module, "no_key", not_applied=not_applied)
    else:
        request_mok_enrollment(module, certificate, password)


def request_mok_enrollment(module: AnsibleModule, certificate: str, password: str) -> None:
    """Request the certificate's enrolment if it is missing; exit with its state and what a person has to do."""
    known = read_mok_key_state(module, certificate)
    if known == "enrolled":
        exit_with_enrollment_state(module, "enrolled", certificate)
    if known == "pending":
        exit_with_enrollment_state(module, "pending", certificate, CONSOLE_INSTRUCTIONS)
    if known != "absent":
        exit_with_enrollment_state(module, "cannot", certificate, f"mokutil: {known}")
    if not password:
        remedy = "set nvidia_driver_mok_password (a vault) and run again"
        exit_with_enrollment_state(
            module,
            "password_missing",
            certificate,
            f"{certificate} is not enrolled, modules won't load: {remedy}",
        )
    if module.check_mode:
        exit_with_enrollment_state(module, "pending", certificate, CONSOLE_INSTRUCTIONS, changed=True)
    output = run_mokutil(module, "--import", certificate, data=f"{password}\n{password}\n")
    if read_mok_key_state(module, certificate) != "pending":
        module.fail_json(msg=f"mokutil accepted the request but does not list it: {output}")
    exit_with_enrollment_state(module, "pending", certificate, CONSOLE_INSTRUCTIONS, changed=True)


if __name__ == "__main__":
    main()
