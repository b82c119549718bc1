//! From a profile as written to a profile as enforced: inheritance, defaults, validation.
//!
//! A key of the profile replaces the same key of the profile that it extends; lists are replaced
//! whole. `environment.set` is joined by name. `[approval]` is read in order, the profile's own
//! lines before those that it inherits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{
    error::ProfileProblem,
    raw::{RawPathGrant, RawProfile},
    resolved::{
        Access, ApprovalRule, ApprovalWhen, BackendKind, Confinement, Container, Environment,
        Filesystem, Host, Limits, Network, NetworkMode, PathGrant, Pool, Profile, Python, Uv,
    },
    schema, values,
};
use crate::{
    carve_outs::CarveOuts,
    document::{
        DocumentError, Layer, Layers, MOST_FAULTS, Origin, Picked, Source, absolute_path, duration,
    },
    enforcement::{Enforcement, Strength},
    tool_rules::ToolPattern,
};

/// A profile with where each value came from, by dotted key; entries of lists as `key[0]`.
pub(super) type Resolved = (Profile, BTreeMap<String, Origin>);

/// The layers of a profile, and what was found to be wrong with them so far.
///
/// A value that is wrong is noted and replaced by another, so that the values after it are looked at
/// too; what comes of that is never given out.
struct Keys<'a> {
    layers: Layers<'a, RawProfile>,
    faults: Vec<DocumentError>,
}

impl<'a> Keys<'a> {
    fn fault(&mut self, fault: DocumentError) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(fault);
        }
    }

    /// The value, or what serves until the fault is told.
    fn sound<T>(&mut self, result: Result<T, DocumentError>, otherwise: T) -> T {
        result.unwrap_or_else(|fault| {
            self.fault(fault);
            otherwise
        })
    }

    /// The entries of a list that are sound.
    fn sound_entries<T, U>(
        &mut self,
        picked: &Picked<'a, Vec<T>>,
        parse: impl Fn(&T) -> Result<U, String>,
    ) -> Vec<U> {
        let mut sound = Vec::with_capacity(picked.value.len());
        for (place, value) in picked.entries() {
            match parse(value) {
                Ok(value) => sound.push(value),
                Err(reason) => self.fault(place.invalid(reason)),
            }
        }
        sound
    }
}

/// Resolves.
///
/// # Errors
/// The first problem, and those after it; at most [`MOST_FAULTS`].
pub(super) fn resolve(
    name: &str,
    raw: &RawProfile,
    parent: Option<&RawProfile>,
) -> Result<Resolved, (ProfileProblem, Vec<ProfileProblem>)> {
    let mut layers = vec![Layer { raw, source: Source::File(&raw.lines) }];
    layers.extend(extended(name, raw, parent).map_err(|problem| (problem, Vec::new()))?);
    let mut keys = Keys { layers: Layers::new(schema(), layers), faults: Vec::new() };
    let description = keys.layers.pick("description", |raw| &raw.description, String::new()).value;
    let backends = backends(&mut keys);
    let host = Host {
        confinement: keys
            .layers
            .pick("host.confinement", |raw| &raw.host.confinement, Confinement::Landlock)
            .value,
    };
    let require = require(&mut keys.layers);
    let (filesystem, carve_outs) = filesystem(&mut keys);
    let network = network(&mut keys);
    let environment = environment(&mut keys);
    let limits = limits(&mut keys);
    let container = container(&mut keys);
    let python = python(&mut keys);
    let uv = uv(&mut keys);
    let pool = pool(&mut keys);
    let approval = approval(&mut keys, &backends, &host);
    let mut faults = keys.faults.into_iter().map(ProfileProblem::Document);
    if let Some(first) = faults.next() {
        return Err((first, faults.collect()));
    }
    let profile = Profile {
        name: name.to_owned(),
        description: description.trim().to_owned(),
        backends,
        require,
        filesystem,
        carve_outs,
        network,
        environment,
        limits,
        container,
        host,
        python,
        uv,
        pool,
        approval,
    };
    Ok((profile, keys.layers.into_origins()))
}

/// The layer that a profile extends, if it says that it does.
fn extended<'a>(
    name: &str,
    raw: &'a RawProfile,
    parent: Option<&'a RawProfile>,
) -> Result<Option<Layer<'a, RawProfile>>, ProfileProblem> {
    let Some(parent_name) = raw.extends.as_deref() else { return Ok(None) };
    if parent_name == name {
        return Err(ProfileProblem::Itself);
    }
    let Some(parent) = parent else {
        return Err(ProfileProblem::NoParent { parent: parent_name.to_owned(), known: vec![] });
    };
    if let Some(grandparent) = &parent.extends {
        return Err(ProfileProblem::TwoLevels {
            parent: parent_name.to_owned(),
            grandparent: grandparent.clone(),
        });
    }
    let source = Source::Extended { name: parent_name, lines: &parent.lines };
    Ok(Some(Layer { raw: parent, source }))
}

fn backends(keys: &mut Keys<'_>) -> Vec<BackendKind> {
    let Some(picked) = keys.layers.pick_written("backends", |raw| &raw.backends) else {
        let missing = keys.layers.missing("backends");
        keys.fault(missing);
        return Vec::new();
    };
    if picked.value.is_empty() {
        keys.fault(picked.place.invalid("must name at least one backend"));
    }
    for (index, (place, backend)) in picked.entries().enumerate() {
        if picked.value[..index].contains(backend) {
            keys.fault(place.invalid_but(
                format!("names `{}` a second time", backend.as_str()),
                "the first place decides the order; remove the other",
            ));
        }
    }
    picked.value
}

fn require(keys: &mut Layers<'_, RawProfile>) -> Enforcement {
    use Strength::{Full, Partial};
    Enforcement {
        files: keys.pick("require.files", |raw| &raw.require.files, Full).value,
        network: keys.pick("require.network", |raw| &raw.require.network, Full).value,
        processes: keys.pick("require.processes", |raw| &raw.require.processes, Full).value,
        privileges: keys.pick("require.privileges", |raw| &raw.require.privileges, Full).value,
        limits: keys.pick("require.limits", |raw| &raw.require.limits, Partial).value,
    }
}

fn filesystem(keys: &mut Keys<'_>) -> (Filesystem, CarveOuts) {
    let layers = &mut keys.layers;
    let workspace =
        layers.pick("filesystem.workspace", |raw| &raw.filesystem.workspace, Access::Read).value;
    let read = layers.pick_list("filesystem.read", |raw| &raw.filesystem.read, vec![]);
    let write = layers.pick_list("filesystem.write", |raw| &raw.filesystem.write, vec![]);
    let protect = layers.pick_list("filesystem.protect", |raw| &raw.filesystem.protect, vec![]);
    let deny = layers.pick_list("filesystem.deny", |raw| &raw.filesystem.deny, vec![]);
    let allow_new_repositories = layers
        .pick(
            "filesystem.allow_new_repositories",
            |raw| &raw.filesystem.allow_new_repositories,
            false,
        )
        .value;
    let tmp_mib = layers.pick("filesystem.tmp_mib", |raw| &raw.filesystem.tmp_mib, 256).value;
    let scratch_home =
        layers.pick("filesystem.scratch_home", |raw| &raw.filesystem.scratch_home, true).value;
    let filesystem = Filesystem {
        workspace,
        read: grants(keys, &read),
        write: grants(keys, &write),
        protect: keys.sound_entries(&protect, |glob| values::path_glob(glob)),
        deny: keys.sound_entries(&deny, |glob| values::path_glob(glob)),
        allow_new_repositories,
        tmp_mib,
        scratch_home,
    };
    let carve_outs = CarveOuts::new(&filesystem).map_err(|error| {
        let written = deny.entries().chain(protect.entries());
        let place = written.filter(|(_, glob)| **glob == error.glob).map(|(place, _)| place);
        let place = place.last().unwrap_or(deny.place.clone());
        place.invalid(values::not_a_glob(&error.glob, &error.source))
    });
    (filesystem, keys.sound(carve_outs, CarveOuts::default()))
}

fn grants<'a>(keys: &mut Keys<'a>, picked: &Picked<'a, Vec<RawPathGrant>>) -> Vec<PathGrant> {
    let mut grants = Vec::with_capacity(picked.value.len());
    for (place, grant) in picked.entries() {
        let path =
            values::granted_path(&grant.path).map_err(|reason| place.key("path").invalid(reason));
        let why = values::sentence(&grant.why).map_err(|reason| place.key("why").invalid(reason));
        let path = keys.sound(path, Default::default());
        let why = keys.sound(why, String::new());
        grants.push(PathGrant { path, why });
    }
    grants
}

fn network(keys: &mut Keys<'_>) -> Network {
    let layers = &mut keys.layers;
    let mode = layers.pick("network.mode", |raw| &raw.network.mode, NetworkMode::None).value;
    let allow = layers.pick_list("network.allow", |raw| &raw.network.allow, vec![]);
    let deny_private =
        layers.pick("network.deny_private", |raw| &raw.network.deny_private, true).value;
    let allow = keys.sound_entries(&allow, |rule| values::network_rule(rule));
    Network { mode, allow, deny_private }
}

fn environment(keys: &mut Keys<'_>) -> Environment {
    let pass = keys.layers.pick_list("environment.pass", |raw| &raw.environment.pass, vec![]);
    let mut pass = keys.sound_entries(&pass, |name| values::variable_name(name));
    let mut set = BTreeMap::new();
    for (name, picked) in keys.layers.pick_entries("environment.set", |raw| &raw.environment.set) {
        let name = values::variable_name(&name).map_err(|reason| {
            picked.place.invalid_but(reason, "for example `PYTHONUNBUFFERED = \"1\"`")
        });
        let name = keys.sound(name, String::new());
        if picked.value.contains('\0') {
            keys.fault(picked.place.invalid("must not have a NUL"));
        }
        set.insert(name, picked.value);
    }
    // One answer per name: what is set is not passed on as well.
    pass.retain(|name| !set.contains_key(name));
    Environment { pass, set }
}

fn limits(keys: &mut Keys<'_>) -> Limits {
    let layers = &mut keys.layers;
    let timeout = layers.pick("limits.timeout", |raw| &raw.limits.timeout, "60s".to_owned());
    let timeout_max =
        layers.pick("limits.timeout_max", |raw| &raw.limits.timeout_max, "15m".to_owned());
    let grace = layers.pick("limits.grace", |raw| &raw.limits.grace, "100ms".to_owned());
    let mut limits = Limits {
        timeout: Duration::ZERO,
        timeout_max: Duration::MAX,
        grace: Duration::ZERO,
        memory_mib: layers.pick("limits.memory_mib", |raw| &raw.limits.memory_mib, 1024).value,
        pids: layers.pick("limits.pids", |raw| &raw.limits.pids, 128).value,
        cpus: layers.pick("limits.cpus", |raw| &raw.limits.cpus, 1.0).value,
        file_size_mib: layers
            .pick("limits.file_size_mib", |raw| &raw.limits.file_size_mib, 512)
            .value,
        open_files: layers.pick("limits.open_files", |raw| &raw.limits.open_files, 512).value,
        output_kib: layers.pick("limits.output_kib", |raw| &raw.limits.output_kib, 64).value,
        output_file_mib: layers
            .pick("limits.output_file_mib", |raw| &raw.limits.output_file_mib, 64)
            .value,
        disk_mib: layers.pick("limits.disk_mib", |raw| &raw.limits.disk_mib, 1024).value,
    };
    limits.timeout = keys.sound(timeout.parse(|text| more_than_zero(text)), limits.timeout);
    limits.timeout_max =
        keys.sound(timeout_max.parse(|text| more_than_zero(text)), limits.timeout_max);
    limits.grace = keys.sound(grace.parse(|text| duration(text)), limits.grace);
    if limits.timeout > limits.timeout_max {
        keys.fault(timeout.place.invalid_but(
            format!("is longer than `timeout_max`, {}", timeout_max.value),
            "shorten `timeout` or raise `timeout_max`",
        ));
    }
    if limits.grace > Duration::from_secs(60) {
        keys.fault(grace.place.invalid(format!("must be at most 60s, not `{}`", grace.value)));
    }
    limits
}

fn more_than_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than zero".to_owned()),
        length => Ok(length),
    }
}

fn container(keys: &mut Keys<'_>) -> Container {
    let layers = &mut keys.layers;
    let image = "cofferdam/python:3".to_owned();
    let image = layers.pick("container.image", |raw| &raw.container.image, image);
    let runtime = layers.pick("container.runtime", |raw| &raw.container.runtime, "runc".to_owned());
    let user = layers.pick("container.user", |raw| &raw.container.user, "65534:65534".to_owned());
    Container {
        image: keys.sound(image.parse(|text| values::word(text)), String::new()),
        runtime: keys.sound(runtime.parse(|text| values::word(text)), String::new()),
        user: keys.sound(user.parse(|text| values::user(text)), String::new()),
    }
}

fn python(keys: &mut Keys<'_>) -> Python {
    let interpreter =
        keys.layers.pick("python.interpreter", |raw| &raw.python.interpreter, "auto".to_owned());
    let interpreter = interpreter.parse(|text| match text.as_str() {
        "auto" => Ok(None),
        path => absolute_path(path)
            .map(Some)
            .map_err(|reason| reason.replace("must be", "must be `auto` or")),
    });
    Python { interpreter: keys.sound(interpreter, None) }
}

fn uv(keys: &mut Keys<'_>) -> Uv {
    let subcommands =
        ["run", "add", "remove", "sync", "lock", "venv", "pip", "tree", "python", "init"];
    let subcommands = subcommands.map(str::to_owned).to_vec();
    let subcommands =
        keys.layers.pick_list("uv.subcommands", |raw| &raw.uv.subcommands, subcommands);
    Uv { subcommands: keys.sound_entries(&subcommands, |name| values::word(name)) }
}

fn pool(keys: &mut Keys<'_>) -> Pool {
    let idle = keys.layers.pick("pool.idle", |raw| &raw.pool.idle, "2m".to_owned());
    Pool {
        warm: keys.layers.pick("pool.warm", |raw| &raw.pool.warm, 1).value,
        idle: keys.sound(idle.parse(|text| duration(text)), Duration::ZERO),
    }
}

fn approval(keys: &mut Keys<'_>, backends: &[BackendKind], host: &Host) -> Arc<[ApprovalRule]> {
    const EVERYTHING: &str = "*";
    let unconfined = backends.contains(&BackendKind::Host) && host.confinement == Confinement::None;
    let mut rules = Vec::new();
    for (tool, picked) in keys.layers.pick_entries("approval", |raw| &raw.approval) {
        let tool = match tool.parse::<ToolPattern>() {
            Ok(tool) => tool,
            Err(error) => {
                let example = "for example `\"uv_tool.*\" = \"always\"`";
                keys.fault(picked.place.invalid_but(error.to_string(), example));
                continue;
            }
        };
        let when = picked.value;
        if unconfined && matches!(when, ApprovalWhen::Never | ApprovalWhen::Outside) {
            keys.fault(picked.place.invalid_but(
                format!("must not be `{}` with `host.confinement = \"none\"`", when.as_str()),
                "an unconfined call must be approved every time: `\"always\"` or `\"unsandboxed\"`",
            ));
        }
        rules.push(ApprovalRule { tool, when });
    }
    if !rules.iter().any(|rule| rule.tool.as_str() == EVERYTHING) {
        if let Ok(tool) = EVERYTHING.parse() {
            rules.push(ApprovalRule { tool, when: ApprovalWhen::Unsandboxed });
        }
        keys.layers.defaulted("approval.\"*\"");
    }
    rules.into()
}
