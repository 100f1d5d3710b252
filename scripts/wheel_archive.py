"""The last step of a wheel: name, bill of materials, and an archive whose bytes hang on the contents alone."""

import base64
import csv
import hashlib
import io
import json
import stat
import time
import zipfile
from importlib import metadata
from pathlib import Path

# A wheel with CUDA is a package of its own: the index has one set of dependencies for each version of a package.
CUDA_NAME = "rtopk-cu{major}"
CUDA_RUNTIME = "nvidia-cuda-runtime<{next},>={major}.{minor}"
FIRST_ZIP_TIME = 315532800  # 1980, where the clock of zip archives begins


def finish(wheel, contents, folder, epoch):
    """Writes the wheel to the folder, with what `contents` (contents.json of the build) says, and returns its path."""
    files, executable = read(wheel)
    info = next(name.split("/")[0] for name in files if name.endswith(".dist-info/METADATA"))
    distribution, version = info.removesuffix(".dist-info").split("-")
    file_name = wheel.name
    if contents["cuda"]:
        major, minor = contents["cuda"].split(".")[:2]
        name = CUDA_NAME.format(major=major)
        runtime = CUDA_RUNTIME.format(major=major, minor=minor, next=int(major) + 1)
        text = files[f"{info}/METADATA"].decode()
        text = text.replace("Name: rtopk\n", f"Name: {name}\n", 1)
        text = text.replace("\nRequires-Dist: ", f"\nRequires-Dist: {runtime}\nRequires-Dist: ", 1)
        files[f"{info}/METADATA"] = text.encode()
        new = name.replace("-", "_")
        files = {path.replace(info, f"{new}-{version}.dist-info", 1): data for path, data in files.items()}
        executable = {path.replace(info, f"{new}-{version}.dist-info", 1) for path in executable}
        file_name = file_name.replace(f"{distribution}-", f"{new}-", 1)
        info = f"{new}-{version}.dist-info"
    files[f"{info}/sboms/rtopk.cdx.json"] = bill_of_materials(info, contents, files, epoch)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / file_name, files, executable, f"{info}/RECORD", epoch)
    return folder / file_name


def read(wheel):
    """The files of a wheel by their names, and the names of those that are executable."""
    with zipfile.ZipFile(wheel) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        files = {entry.filename: archive.read(entry) for entry in entries}
        executable = {entry.filename for entry in entries if (entry.external_attr >> 16) & stat.S_IXUSR}
    return files, executable


def write(path, files, executable, record, epoch):
    """In the order of names, at one time, with a RECORD of what is there, which comes last."""
    files[record] = record_of(files, record).encode()
    date = time.gmtime(max(epoch, FIRST_ZIP_TIME))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files, key=lambda name: (".dist-info/" in name, name == record, name)):
            entry = zipfile.ZipInfo(name, date)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, wherever this runs
            entry.external_attr = (stat.S_IFREG | (0o755 if name in executable else 0o644)) << 16
            archive.writestr(entry, files[name])


def record_of(files, record):
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for name in sorted(set(files) - {record}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(files[name])])
    rows.writerow([record, "", ""])
    return text.getvalue()


def component(name, version, licence, purl, how, **more):
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": [{"expression": licence}],
        "properties": [{"name": "rtopk:how", "value": how}],
        **more,
    }


def bill_of_materials(info, contents, files, epoch):
    """CycloneDX, of what is inside of the binaries: no more than that. Libraries that auditwheel added have a bill of
    their own, which auditwheel writes beside this one."""
    distribution, version = info.removesuffix(".dist-info").split("-")
    name = distribution.replace("_", "-")
    binaries = {Path(path).name for path in files if ".so" in Path(path).name}
    inside = []
    if contents["highway"]:
        how = "as a shared library" if contents["highway_shared"] == "ON" else "linked into librtopk"
        inside.append(
            component(
                "highway",
                contents["highway"],
                "Apache-2.0 OR BSD-3-Clause",
                f"pkg:github/google/highway@{contents['highway']}",
                how,
            )
        )
    # Code of their headers is compiled into the binary; the libraries themselves are those of the user.
    headers = [("_native.abi3.so", "nanobind", "BSD-3-Clause")]
    headers += [("librtopk_torch.so", "torch", "BSD-3-Clause"), ("librtopk_jax.so", "jaxlib", "Apache-2.0")]
    for binary, package, licence in headers:
        if binary in binaries:
            installed = metadata.version(package)
            purl = f"pkg:pypi/{package}@{installed.split('+')[0]}"
            inside.append(component(package, installed, licence, purl, f"headers, compiled into {binary}"))
    if contents["cuda"]:
        purl = f"pkg:generic/cuda-toolkit@{contents['cuda']}"
        licence = "LicenseRef-NVIDIA-CUDA-EULA"
        inside.append(
            component("cuda-toolkit", contents["cuda"], licence, purl, "headers, compiled into the kernels of librtopk")
        )
    ours = f"pkg:pypi/{name}@{version}"
    bill = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch)),
            "component": {
                "type": "library",
                "bom-ref": ours,
                "name": name,
                "version": version,
                "purl": ours,
                "licenses": [{"expression": "MIT"}],
            },
            "properties": [{"name": "rtopk:compiler", "value": contents["compiler"]}]
            + [
                {"name": "rtopk:cuda_architectures", "value": architecture}
                for architecture in contents["cuda_architectures"].split(";")
                if contents["cuda"]
            ],
        },
        "components": inside,
        "dependencies": [
            {"ref": ours, "dependsOn": [each["bom-ref"] for each in inside]},
            *({"ref": each["bom-ref"]} for each in inside),
        ],
    }
    return (json.dumps(bill, indent=2) + "\n").encode()
