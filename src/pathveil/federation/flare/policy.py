"""What a participant lets FLARE do on its machine: the files in its kit's ``local`` folder.

FLARE's own defaults let an administrator send code with a job, read a site's files by shell commands and receive its
logs, and keep jobs in the machine's temporary folder. Here a site runs one class, the one in ``executor``, whatever the
job says; takes no code; answers no shell command; keeps its logs to itself. These are the site's own files: an
administrator cannot change them, and whoever runs the site can read them.

>>> site()["resources.json"]["class_allow_list"]
['pathveil.federation.flare.executor.SiteExecutor']
>>> site()["authorization.json"]["permissions"]["project_admin"]["byoc"]
'none'
"""

import logging
from pathlib import Path
from typing import Any

from pathveil.files import write_json

HUB = "pathveil.federation.flare.controller.HubController"
SITE = "pathveil.federation.flare.executor.SiteExecutor"
CHANNEL, TOPIC, ALIVE, TASK = "pathveil", "exchange", "alive", "train"  # by which they speak
STATUS = "pathveil-status"  # what who submits asks a running job
SETTINGS = "pathveil.json"  # in a site's local folder: where its corpus and vocabulary are
SITES = "PATHVEIL_SITES"  # names a folder with such a file a site, where several sites share a machine
FIRST = {"max_jobs": 1, "min_schedule_interval": 1.0}
LOST = 30  # seconds without a sign of a site before the hub takes it for gone

Files = dict[str, dict[str, Any]]


def hub(kit: Path) -> Files:
    """The hub's files: jobs and their results stay inside its own kit."""
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    components = [
        component("job_scheduler", "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler", **FIRST),
        component(
            "job_manager",
            "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
            uri_root=str(kit / "jobs"),
            job_store_id="job_store",
        ),
        component("job_store", storage),
        component("duplicate_guard", "pathveil.federation.flare.duplicate_guard.DuplicateGuard"),
        component(
            "process_launcher", "nvflare.app_common.job_launcher.server_process_launcher.ServerProcessJobLauncher"
        ),
    ]
    store = {"path": storage, "args": {"root_dir": str(kit / "snapshots"), "uri_root": "/"}}
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [HUB],
        "servers": [
            {"admin_storage": "transfer", "max_num_clients": 100, "heart_beat_timeout": LOST, "admin_timeout": 30.0}
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {"uri_root": "/", "storage": store},
        },
        "components": components,
    }
    return {"resources.json": resources, "authorization.json": rights(operate="any"), "log_config.json": logs()}


def site() -> Files:
    """A site's files."""
    managers = "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager"
    components = [
        component("resource_manager", managers, num_of_gpus=0, mem_per_gpu_in_GiB=0, expiration_period=300),
        component(
            "resource_consumer", "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer"
        ),
        component("process_launcher", "pathveil.federation.flare.launcher.SiteLauncher"),
    ]
    resources = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [SITE],
        "allow_log_streaming": False,
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": components,
    }
    return {"resources.json": resources, "authorization.json": rights(operate="none"), "log_config.json": logs()}


def component(name: str, path: str, **arguments: Any) -> dict[str, Any]:
    return {"id": name, "path": path, "args": arguments}


def rights(*, operate: str) -> dict[str, Any]:
    """The administrator may submit, watch, stop and fetch jobs; bring code or look around on a machine, never."""
    allowed = {"submit_job": "any", "manage_job": "any", "download_job": "any", "view": "any", "app_command": "any"}
    refused = {"operate": operate, "clone_job": "none", "shell_commands": "none", "byoc": "none"}
    return {"format_version": "1.0", "permissions": {"project_admin": allowed | refused}}


def logs() -> dict[str, Any]:
    """Our own lines on the terminal; those and FLARE's warnings in ``log.txt``, which is cut at 20 MB."""
    line = {"()": "nvflare.fuel.utils.log_utils.BaseFormatter", "fmt": "%(asctime)s  %(levelname)s  %(message)s"}
    console = {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stderr"}
    file = {"class": "logging.handlers.RotatingFileHandler", "formatter": "line", "filename": "log.txt"}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": line},
        "filters": {"ours": {"()": f"{__name__}.Ours"}, "settled": {"()": f"{__name__}.Settled"}},
        "handlers": {
            "console": console | {"filters": ["ours"]},
            "file": file | {"filters": ["settled"], "maxBytes": 20_000_000, "backupCount": 3},
        },
        "loggers": {"root": {"level": "WARNING", "handlers": ["console", "file"]}, "pathveil": {"level": "INFO"}},
    }


class Ours(logging.Filter):
    """Lets our own lines through."""

    def filter(self, record: logging.LogRecord) -> bool:
        return record.name.startswith("pathveil")


class Settled(logging.Filter):
    """Drops FLARE's complaints that a job which is starting or ending could not be asked how far it is."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return "app_command" not in text and "no app command func" not in text


def write(local: Path, files: Files) -> None:
    """Put the files into a kit's ``local`` folder, where FLARE prefers them to its defaults."""
    for name, content in files.items():
        write_json(local / name, content)
