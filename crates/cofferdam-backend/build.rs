//! Builds `cofferdam-init` as a static program and hands it to the crate to embed.
//!
//! It must be static, since there may be no dynamic loader inside a sandbox, and embedded, so that
//! the installed program is one file. Cargo cannot yet make one binary of a workspace static
//! without making all of them so (artifact dependencies are unstable); hence a second cargo in a
//! target folder of its own, which cannot wait for the outer one's lock.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, exit},
};

#[expect(clippy::disallowed_methods, reason = "the second cargo")]
fn main() {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let manifest = variable("CARGO_MANIFEST_DIR").join("../cofferdam-init/Cargo.toml");
    let out = variable("OUT_DIR");
    let target = env::var("TARGET").unwrap_or_default();
    for watched in ["Cargo.toml", "src"] {
        println!("cargo::rerun-if-changed=../cofferdam-init/{watched}");
    }
    println!("cargo::rerun-if-changed=build.rs");

    let folder = out.join("init");
    let status = Command::new(variable("CARGO"))
        .args(["build", "--release", "--offline", "--quiet", "--bin", "cofferdam-init"])
        .arg("--manifest-path")
        .arg(&manifest)
        .arg("--target")
        .arg(&target)
        .arg("--target-dir")
        .arg(&folder)
        // What the outer cargo was told (clippy as the compiler, other flags) is not for this one.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_TARGET_DIR")
        .env_remove("RUSTFLAGS")
        .env(
            "CARGO_ENCODED_RUSTFLAGS",
            ["-Ctarget-feature=+crt-static", "-Crelocation-model=static"].join("\x1f"),
        )
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "s")
        .env("CARGO_PROFILE_RELEASE_PANIC", "abort")
        .env("CARGO_PROFILE_RELEASE_LTO", "fat")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1")
        .status();
    let built = folder.join(&target).join("release/cofferdam-init");
    match status {
        Ok(status) if status.success() && is_static(&built) => {}
        Ok(_) => fail(
            "cofferdam-init could not be built as a static program",
            "the C library's static part is needed: libc6-dev on Debian and Ubuntu, glibc-static \
             on Fedora",
        ),
        Err(error) => fail(&format!("cargo could not be started: {error}"), "check $CARGO"),
    }
    println!("cargo::rustc-env=COFFERDAM_INIT_PROGRAM={}", built.display());
}

/// A dynamic program names its loader; ours must not.
fn is_static(program: &Path) -> bool {
    std::fs::read(program).is_ok_and(|bytes| {
        !bytes.windows(10).any(|window| window == b"/ld-linux-" || window == b"/ld-musl-x")
    })
}

fn fail(message: &str, hint: &str) -> ! {
    println!("cargo::error={message}; {hint}");
    exit(1)
}
