//! The profiles that are built into the program, from `sandbox-profiles/`.

use super::{ProfileOrigin, ProfileSource};

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../sandbox-profiles/", $name, ".toml")))),*]
    };
}

const SHIPPED: [(&str, &str); 8] = shipped![
    "base",
    "default",
    "offline-strict",
    "uv",
    "container",
    "gvisor",
    "host-guarded",
    "host-unconfined",
];

/// The shipped profiles, as written.
pub fn shipped() -> impl Iterator<Item = ProfileSource> {
    SHIPPED.into_iter().map(|(name, text)| ProfileSource {
        name: name.to_owned(),
        text: text.to_owned(),
        origin: ProfileOrigin::Shipped,
    })
}
