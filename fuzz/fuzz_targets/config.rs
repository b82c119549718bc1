//! Any text as `cofferdam.toml`: it is read or refused, and whatever is read can be printed.

#![no_main]

use std::{cell::OnceCell, fs, path::PathBuf};

use cofferdam_policy::document::print;
use libfuzzer_sys::fuzz_target;

// The program's own modules: it has no library.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/cofferdam/src/config/mod.rs"]
mod config;

thread_local! {
    /// A file in memory: the configuration is read from files alone.
    static FILE: OnceCell<PathBuf> = const { OnceCell::new() };
}

fuzz_target!(|text: &str| {
    FILE.with(|file| {
        let file = file.get_or_init(|| {
            let folder =
                PathBuf::from("/dev/shm").join(format!("cofferdam-fuzz-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder in memory");
            folder.join("cofferdam.toml")
        });
        fs::write(file, text).expect("a file in memory");
        let folder = file.parent().expect("a folder");
        match config::Config::load(Some(file), &Default::default(), folder) {
            Ok(config) => {
                let entries = config.entries();
                let printed = print(&entries, |key| config.origin_text(key));
                assert!(!printed.is_empty());
                let _ = (config.not_armed(), config.known_profiles(Vec::new()));
            }
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                assert!(cause.is_some_and(|cause| !cause.chars().any(char::is_control)));
                let _ = error.hint();
            }
        }
    });
});
