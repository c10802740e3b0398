"""Installation of the plugin directory into $HERMES_HOME/plugins, where the host looks for memory providers."""

from __future__ import annotations

import compileall
import filecmp
import json
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import yaml

from ...domain.errors import ConfigurationError
from ...domain.files import make_folder
from .file_replacing import how_to_let_write, swap, work_folder
from .own_package import DISTRIBUTION, reinstall_requirement
from .repeat import held_back

Mode = Literal["shim", "copy"]
Action = Literal["created", "replaced", "unchanged", "kept"]

PLUGIN_NAME = "pgvector"
IMPORT_NAME = "hermes_memory_pgvector"
MANIFEST = "plugin.yaml"
ORIGIN_FILE = "origin.json"
_PACKAGE_DIR = Path(__file__).resolve().parents[2]
_SHIM_DIR = _PACKAGE_DIR / "admin" / "setup" / "shim"
PAGE_FOLDER = "dashboard"
# Files that the host, its forms and its dashboard read from the directory itself, beside the shim's code.
_PAGE_FILES = (f"{PAGE_FOLDER}/manifest.json", f"{PAGE_FOLDER}/plugin_api.py")
_PAGE_SCRIPTS = f"{PAGE_FOLDER}/dist"
_SHARED_FILES = (MANIFEST, "after-install.md", "config_schema.py", *_PAGE_FILES)
_COMPILED = "__pycache__"
_LONGEST_S = 600.0  # an install that takes longer was killed
_UNINSTALLERS = ("pip", "uv")  # what they installed must be removed with them, by the command that we name


@dataclass(frozen=True)
class InstallReport:
    """Result of `install_plugin`: `path` is the plugin directory, `note` a line for the user or empty."""

    path: Path
    mode: Mode
    action: Action
    version: str
    note: str = ""


def install_plugin(hermes_home: Path, *, mode: Mode = "shim", force: bool = False) -> InstallReport:
    """Create or renew `hermes_home`/plugins/pgvector; repeating it changes nothing.

    A shim is a few lines that import the installed package; a copy holds the package's own files. The directory is
    always either complete or absent. A symlink to a plugin of ours is left as it is.

    Raises: ConfigurationError if something there is not ours (unless `force`), if it cannot be written, or if a shim is
    requested and the package is not installed.
    """
    if mode == "shim" and find_spec(IMPORT_NAME) is None:
        raise ConfigurationError(
            f"a shim imports {IMPORT_NAME}, which is not installed in this Python; "
            f"install it with pip, or put a whole copy in place with --copy"
        )
    version = package_version()
    target = hermes_home.expanduser().absolute() / "plugins" / PLUGIN_NAME
    if target.is_symlink() and not force:
        return InstallReport(target, mode, "kept", version, _symlink_note(target))
    if os.path.lexists(target) and not force and not is_ours(target):
        raise ConfigurationError(
            f"{target} exists and was not put there by this package; "
            f"move it away, or run `hermes-pgvector install --force` to replace it"
        )
    try:
        action = _build_and_swap(target, mode, version)
    except OSError as error:
        raise ConfigurationError(
            f"{target} cannot be written ({error}); {how_to_let_write(error, hermes_home)}"
        ) from error
    return InstallReport(target, mode, action, version)


def package_version() -> str:
    """Return the version of this package from its manifest."""
    return version_in(_PACKAGE_DIR)


def version_in(directory: Path) -> str:
    """Return the version of the plugin in a directory from its manifest; empty if it has none."""
    return str(_manifest(directory).get("version", ""))


def is_ours(directory: Path) -> bool:
    """Return whether `directory` holds this plugin, of any version, as a shim or a copy."""
    ours = _manifest(_PACKAGE_DIR)
    theirs = _manifest(directory)
    return all(theirs.get(key) == ours.get(key) for key in ("name", "author"))


def has_our_page(directory: Path) -> bool:
    """Return whether the page in the plugin directory is, byte for byte, that of this package."""
    return all(_same_file(_PACKAGE_DIR / name, directory / name) for name in _PAGE_FILES) and _same_tree(
        _PACKAGE_DIR / _PAGE_SCRIPTS, directory / _PAGE_SCRIPTS
    )


def is_distributed() -> bool:
    """Return whether pip or uv installed this very package, so that it is not a copy in a plugin directory."""
    try:
        installer = metadata.distribution(DISTRIBUTION).read_text("INSTALLER") or ""
    except metadata.PackageNotFoundError:
        return False
    return installer.strip() in _UNINSTALLERS and __name__.partition(".")[0] == IMPORT_NAME


def _manifest(directory: Path) -> dict[str, object]:
    """Return the directory's plugin.yaml; empty if it is missing or cannot be read."""
    try:
        content = yaml.safe_load((directory / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    return content if isinstance(content, dict) else {}


def _symlink_note(target: Path) -> str:
    """Return why a symlink is left alone. Raises ConfigurationError if it does not lead to this plugin."""
    destination = Path(os.readlink(target))
    if is_ours(target):
        return f"{target} is a symlink to {destination} and was left as it is"
    raise ConfigurationError(
        f"{target} is a symlink to {destination}, which does not hold this plugin; "
        f"remove it, or run `hermes-pgvector install --force` to replace it"
    )


def _build_and_swap(target: Path, mode: Mode, version: str) -> Action:
    """Build the directory beside `target` and rename it into place; a leading dot hides it from the host until then."""
    make_folder(target.parent)
    for left in left_by_installs(target.parent, older_than_s=_LONGEST_S):
        shutil.rmtree(left, ignore_errors=True)
    with work_folder(f".{PLUGIN_NAME}-", target.parent) as work:
        fresh, old = work / "new", work / "old"
        if mode == "shim":
            _write_shim(fresh, version)
        else:
            _copy_tree(_PACKAGE_DIR, fresh)
        if target.is_dir() and not target.is_symlink() and _same_tree(fresh, target):
            _close_to_writers(target)
            return "unchanged"
        # Compiled in advance: the host's first two requests race for as long as loading takes.
        compileall.compile_dir(fresh, quiet=2)
        _close_to_writers(fresh)
        return "replaced" if swap(fresh, target, old) else "created"


def _close_to_writers(directory: Path) -> None:
    """Let nobody but the owner write to the plugin, which is code that the agent runs, whatever the umask."""
    for path in (directory, *directory.rglob("*")):
        with suppress(OSError):  # no modes there, another owner's, or a name that an agent has compiled a module under
            mode = path.lstat().st_mode
            if mode & 0o022 and not stat.S_ISLNK(mode):
                path.chmod(stat.S_IMODE(mode) & ~0o022)


def put_aside(plugin: Path) -> Path:
    """Move the plugin to where `left_by_installs` finds it, and return where it is then.

    Half deleted it would not be known for ours any more. It stays where it cannot be moved, as in a container whose
    image holds it.
    """
    with suppress(OSError), held_back():
        work = Path(tempfile.mkdtemp(prefix=f".{PLUGIN_NAME}-", dir=plugin.parent))
        try:
            os.rename(plugin, work / "old")
        except OSError:
            work.rmdir()
            raise
        return work / "old"
    return plugin


def left_by_installs(plugins: Path, *, older_than_s: float = 0.0) -> list[Path]:
    """Return the folders in which installs and removals that were killed were at work, in the folder of plugins."""
    found = []
    for each in sorted(plugins.glob(f".{PLUGIN_NAME}-*")):
        with suppress(OSError):  # gone meanwhile
            if time.time() - each.stat().st_mtime >= older_than_s:
                found.append(each)
    return found


def _write_shim(directory: Path, version: str) -> None:
    """Fill `directory` with the shim's code, the files the host reads, and where the package came from."""
    _copy_tree(_SHIM_DIR, directory)
    (directory / PAGE_FOLDER).mkdir()
    for name in _SHARED_FILES:
        if (_PACKAGE_DIR / name).exists():
            shutil.copyfile(_PACKAGE_DIR / name, directory / name)
    _copy_tree(_PACKAGE_DIR / _PAGE_SCRIPTS, directory / _PAGE_SCRIPTS)
    origin = {"requirement": reinstall_requirement(), "version": version}
    (directory / ORIGIN_FILE).write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")


def _copy_tree(source: Path, destination: Path) -> None:
    """Copy files without their modes: a package in a read-only place must not make a read-only plugin."""
    destination.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.name == _COMPILED:
            continue
        if entry.is_dir():
            _copy_tree(entry, destination / entry.name)
        else:
            shutil.copyfile(entry, destination / entry.name)


def _same_tree(left: Path, right: Path) -> bool:
    """Return whether two directories hold the same files with the same bytes, ignoring compiled code."""
    names = {path.relative_to(left) for path in left.rglob("*") if _COMPILED not in path.parts}
    if names != {path.relative_to(right) for path in right.rglob("*") if _COMPILED not in path.parts}:
        return False
    return all((right / n).is_dir() if (left / n).is_dir() else _same_file(left / n, right / n) for n in names)


def _same_file(left: Path, right: Path) -> bool:
    return right.is_file() and filecmp.cmp(left, right, shallow=False)
