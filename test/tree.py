"""A copy of the tree, for tests that change or build one."""

import shutil
import subprocess


def copy_tree(source, target):
    """Copies what git tracks or would track of `source` to `target`, as it is now."""
    listed = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (source / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source / name, target / name)
