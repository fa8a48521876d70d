"""Where the things are that the scripts of this folder run."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def default_command():
    """The command of a build folder, or of the bundle that this script lies in."""
    built = os.path.join(ROOT, "build", "ebbtide")
    bundled = os.path.join(ROOT, "bin", "ebbtide")
    return bundled if os.path.exists(bundled) and not os.path.exists(built) else built
