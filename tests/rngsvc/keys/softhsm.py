"""A PKCS#11 token in software (SoftHSM 2), in a folder of its own."""

import os
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest

PIN = "8317-planted-pin"
MODULE = Path("/usr/lib/softhsm/libsofthsm2.so")
CONFIGURATION = "SOFTHSM2_CONF"


class SoftHsm:
    """Tokens in ``folder``. The library reads its configuration once a process, so a process has one of these."""

    def __init__(self, folder: Path) -> None:
        if shutil.which("softhsm2-util") is None or not MODULE.exists():
            pytest.skip("SoftHSM is not installed (Debian: softhsm2)")
        self.folder = folder
        (folder / "tokens").mkdir()
        configuration = folder / "softhsm2.conf"
        configuration.write_text(f"directories.tokendir = {folder / 'tokens'}\nlog.level = ERROR\n")
        os.environ[CONFIGURATION] = str(configuration)
        self.pin_file = folder / "pin"
        self.pin_file.write_text(PIN + "\n")
        self.pin_file.chmod(0o600)

    def make_token(self, label: str) -> None:
        """Make a new token, which `PIN` opens."""
        command = ["softhsm2-util", "--init-token", "--free", "--label", label, "--pin", PIN, "--so-pin", "so-" + PIN]
        subprocess.run(command, check=True, capture_output=True)

    def uri(self, token: str, label: str, pin_source: str = "", module: Path = MODULE) -> str:
        """Return the place of a key."""
        source = pin_source or f"file:{self.pin_file}"
        return f"pkcs11:token={quote(token)};object={quote(label)}?module-path={module}&pin-source={quote(source)}"
