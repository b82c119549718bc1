//! From the layers that were armed in a run to the strength of each dimension.
//!
//! Only what the first program inside said it armed counts; what a profile asks for and nobody
//! armed is named.

use std::collections::HashSet;

use cofferdam_init::Layer;
use cofferdam_policy::{Enforcement, Profile, Strength, profile::NetworkMode};

use crate::EnforcementReport;

/// What a dimension needs to be `full`, and what to be `partial`.
struct Needs {
    full: &'static [Layer],
    partial: &'static [Layer],
}

const FILES: Needs = Needs {
    full: &[Layer::MountNamespace, Layer::MountsVerified, Layer::ReadOnlyRoot, Layer::Descriptors],
    partial: &[Layer::MountNamespace],
};
const NETWORK: Needs = Needs {
    full: &[Layer::NetworkNamespace, Layer::IpcNamespace, Layer::SyscallFilter],
    partial: &[Layer::NetworkNamespace],
};
const PROCESSES: Needs = Needs {
    full: &[Layer::PidNamespace, Layer::IpcNamespace, Layer::OwnSession],
    partial: &[Layer::PidNamespace],
};
const PRIVILEGES: Needs = Needs {
    full: &[
        Layer::UserNamespace,
        Layer::Identity,
        Layer::NoCapabilities,
        Layer::NoNewPrivileges,
        Layer::SyscallFilter,
        Layer::NestedNamespacesOff,
        Layer::NoCore,
    ],
    partial: &[Layer::NoNewPrivileges],
};

/// The limits of a profile that this version can arm, and those that it cannot yet.
const LIMITS_NOT_BUILT: [&str; 4] =
    ["limits.memory_mib", "limits.pids", "limits.cpus", "limits.disk_mib"];

impl Needs {
    fn strength(&self, armed: &HashSet<Layer>) -> Strength {
        let has = |layers: &[Layer]| layers.iter().all(|layer| armed.contains(layer));
        if has(self.full) {
            Strength::Full
        } else if has(self.partial) {
            Strength::Partial
        } else {
            Strength::None
        }
    }
}

/// What a run was held by.
///
/// `root_outside` says that the command's user is root in the eyes of the machine.
pub(crate) fn report(
    profile: &Profile,
    armed: &HashSet<Layer>,
    root_outside: bool,
) -> EnforcementReport {
    let mut not_armed: Vec<String> = Vec::new();
    let mut files = FILES.strength(armed);
    let carved = armed.contains(&Layer::CarveOuts);
    let carve_outs = [
        ("filesystem.deny", carved || profile.filesystem.deny.is_empty()),
        ("filesystem.protect", carved || profile.filesystem.protect.is_empty()),
    ];
    for (key, held) in carve_outs {
        if !held {
            not_armed.push(key.to_owned());
            files = files.min(Strength::Partial);
        }
    }
    // No mode but `none` is built yet. There is less network than such a profile asks for, never
    // more, so the strength stays; the missing grant is named.
    if profile.network.mode != NetworkMode::None {
        not_armed.push("network.allow".to_owned());
    }
    let mut privileges = PRIVILEGES.strength(armed);
    if root_outside {
        not_armed.push("privileges.not_root_outside".to_owned());
        privileges = privileges.min(Strength::Partial);
    }
    not_armed.extend(LIMITS_NOT_BUILT.map(str::to_owned));
    let limits = if armed.contains(&Layer::OpenFiles) && armed.contains(&Layer::FileSize) {
        Strength::Partial
    } else {
        Strength::None
    };
    EnforcementReport {
        enforcement: Enforcement {
            files,
            network: NETWORK.strength(armed),
            processes: PROCESSES.strength(armed),
            privileges,
            limits,
        },
        not_armed,
    }
}

/// The workspace could not be looked through after the run: what it left is not known.
pub(crate) fn carve_outs_not_settled(report: &mut EnforcementReport) {
    report.not_armed.push("filesystem.quarantine".to_owned());
    report.enforcement.files = report.enforcement.files.min(Strength::Partial);
}

/// What a backend that arms every layer would report.
pub(crate) fn promise(profile: &Profile, root_outside: bool) -> EnforcementReport {
    report(profile, &Layer::ALL.iter().copied().collect(), root_outside)
}
