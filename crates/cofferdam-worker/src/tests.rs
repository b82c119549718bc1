//! What the tests of several modules need.

use std::{collections::BTreeMap, path::Path, time::Duration};

use cofferdam_backend::{Captured, Ending, EnforcementReport, Outcome, Usage};
use cofferdam_policy::{
    BackendKind, CommandPlan, Decision, Enforcement, Grant, Program, Strength, ToolRules,
    authorize,
    profile::{Profiles, shipped},
};

use crate::{
    ApprovalSettings, Rules, WorkerSettings,
    generation::{Generation, Generations},
};

/// Held by tests that write a program and start it: a program cannot be started while another
/// process has it open for writing, as one that is just being started elsewhere has for a moment.
pub(crate) static EXECUTABLES: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A run that wrote nothing.
pub(crate) fn outcome(ending: Ending) -> Outcome {
    Outcome {
        backend: BackendKind::Bubblewrap,
        ending,
        stdout: Captured::default(),
        stderr: Captured::default(),
        report: EnforcementReport {
            enforcement: Enforcement {
                limits: Strength::Partial,
                ..Enforcement::uniform(Strength::Full)
            },
            not_armed: vec!["limits.memory_mib".to_owned()],
        },
        usage: Usage { cpu: Duration::from_micros(12_345), peak_memory_bytes: 9 * 1024 * 1024 },
        duration: Duration::from_micros(47_060),
        limits_hit: Vec::new(),
        quarantined: Vec::new(),
    }
}

/// A stream that was kept whole.
pub(crate) fn captured(bytes: &[u8]) -> Captured {
    Captured { head: bytes.to_vec(), total_bytes: bytes.len() as u64, ..Captured::default() }
}

/// One generation of the shipped profiles, with these rules about tools.
pub(crate) fn generations(tools: ToolRules) -> Generations {
    let rules = Rules { default_profile: "default".to_owned(), profiles: profiles(), tools };
    let settings = WorkerSettings {
        workspace: "/w".into(),
        rules: rules.clone(),
        serial: true,
        max_running: 1,
        max_queued: 1,
        environment: BTreeMap::new(),
        homes: Vec::new(),
        session_profile: None,
        backend: None,
        tools_file: None,
        approval: ApprovalSettings::default(),
        audit: None,
    };
    Generations::new(Generation::new(rules, &settings, Path::new("/w")).unwrap())
}

pub(crate) fn profiles() -> Profiles {
    Profiles::load(shipped()).unwrap()
}

pub(crate) fn command(workspace: &Path) -> CommandPlan {
    CommandPlan {
        tool: "python_coding_tool.execute".to_owned(),
        program: Program::Command(vec!["true".into()]),
        working_directory: workspace.to_owned(),
        workspace: workspace.to_owned(),
        runtime: Vec::new(),
        runtime_path: Vec::new(),
        runtime_environment: Vec::new(),
        timeout: None,
        without_deadline: false,
        backend: None,
    }
}

pub(crate) fn grant(plan: CommandPlan) -> Grant {
    let profiles = profiles();
    let decision =
        authorize(plan, profiles.get("default").unwrap(), profiles.generation(), &[]).unwrap();
    let Decision::Granted(grant) = decision else { panic!("{decision:?}") };
    *grant
}

/// The beginning of a PNG image of that size, as far as anybody looks.
pub(crate) fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend([8, 6, 0, 0, 0, 1, 2, 3, 4]);
    bytes
}
