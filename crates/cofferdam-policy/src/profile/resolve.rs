//! From a profile as written to a profile as enforced: inheritance, defaults, validation.
//!
//! A key of the profile replaces the same key of the profile that it extends; lists are replaced
//! whole. `environment.set` is joined by name. `[approval]` is read in order, the profile's own
//! lines before those that it inherits.

use std::{collections::BTreeMap, time::Duration};

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
    document::{DocumentError, Layer, Layers, Origin, Picked, Source, absolute_path, duration},
    enforcement::{Enforcement, Strength},
};

type Problem<T> = Result<T, DocumentError>;
type Keys<'a> = Layers<'a, RawProfile>;

/// Resolves, and tells where each value came from, by dotted key.
pub(super) fn resolve(
    name: &str,
    raw: &RawProfile,
    parent: Option<&RawProfile>,
) -> Result<(Profile, BTreeMap<String, Origin>), ProfileProblem> {
    let mut layers = vec![Layer { raw, source: Source::File(&raw.lines) }];
    if let Some(parent_name) = raw.extends.as_deref() {
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
        layers.push(Layer { raw: parent, source });
    }
    let mut keys = Layers::new(schema(), layers);
    let description = keys.pick("description", |raw| &raw.description, String::new());
    let backends = backends(&mut keys)?;
    let host = Host {
        confinement: keys
            .pick("host.confinement", |raw| &raw.host.confinement, Confinement::Landlock)
            .value,
    };
    let profile = Profile {
        name: name.to_owned(),
        description: description.value.trim().to_owned(),
        require: require(&mut keys),
        filesystem: filesystem(&mut keys)?,
        network: network(&mut keys)?,
        environment: environment(&mut keys)?,
        limits: limits(&mut keys)?,
        container: container(&mut keys)?,
        python: python(&mut keys)?,
        uv: uv(&mut keys)?,
        pool: pool(&mut keys)?,
        approval: approval(&mut keys, &backends, &host)?,
        backends,
        host,
    };
    Ok((profile, keys.into_origins()))
}

fn backends(keys: &mut Keys<'_>) -> Problem<Vec<BackendKind>> {
    let picked = keys
        .pick_written("backends", |raw| &raw.backends)
        .ok_or_else(|| keys.missing("backends"))?;
    if picked.value.is_empty() {
        return Err(picked.place.invalid("must name at least one backend"));
    }
    for (index, (place, backend)) in picked.entries().enumerate() {
        if picked.value[..index].contains(backend) {
            return Err(place.invalid_but(
                format!("names `{}` a second time", backend.as_str()),
                "the first place decides the order; remove the other",
            ));
        }
    }
    Ok(picked.value)
}

fn require(keys: &mut Keys<'_>) -> Enforcement {
    use Strength::{Full, Partial};
    Enforcement {
        files: keys.pick("require.files", |raw| &raw.require.files, Full).value,
        network: keys.pick("require.network", |raw| &raw.require.network, Full).value,
        processes: keys.pick("require.processes", |raw| &raw.require.processes, Full).value,
        privileges: keys.pick("require.privileges", |raw| &raw.require.privileges, Full).value,
        limits: keys.pick("require.limits", |raw| &raw.require.limits, Partial).value,
    }
}

fn filesystem(keys: &mut Keys<'_>) -> Problem<Filesystem> {
    let read = keys.pick("filesystem.read", |raw| &raw.filesystem.read, vec![]);
    let write = keys.pick("filesystem.write", |raw| &raw.filesystem.write, vec![]);
    let protect = keys.pick("filesystem.protect", |raw| &raw.filesystem.protect, vec![]);
    let deny = keys.pick("filesystem.deny", |raw| &raw.filesystem.deny, vec![]);
    Ok(Filesystem {
        workspace: keys
            .pick("filesystem.workspace", |raw| &raw.filesystem.workspace, Access::Read)
            .value,
        read: grants(&read)?,
        write: grants(&write)?,
        protect: protect.parse_each(|glob| values::path_glob(glob))?,
        deny: deny.parse_each(|glob| values::path_glob(glob))?,
        allow_new_repositories: keys
            .pick(
                "filesystem.allow_new_repositories",
                |raw| &raw.filesystem.allow_new_repositories,
                false,
            )
            .value,
        tmp_mib: keys.pick("filesystem.tmp_mib", |raw| &raw.filesystem.tmp_mib, 256).value,
        scratch_home: keys
            .pick("filesystem.scratch_home", |raw| &raw.filesystem.scratch_home, true)
            .value,
    })
}

fn grants(picked: &Picked<'_, Vec<RawPathGrant>>) -> Problem<Vec<PathGrant>> {
    picked
        .entries()
        .map(|(place, grant)| {
            Ok(PathGrant {
                path: values::granted_path(&grant.path)
                    .map_err(|reason| place.key("path").invalid(reason))?,
                why: values::sentence(&grant.why)
                    .map_err(|reason| place.key("why").invalid(reason))?,
            })
        })
        .collect()
}

fn network(keys: &mut Keys<'_>) -> Problem<Network> {
    let allow = keys.pick("network.allow", |raw| &raw.network.allow, vec![]);
    Ok(Network {
        mode: keys.pick("network.mode", |raw| &raw.network.mode, NetworkMode::None).value,
        allow: allow.parse_each(|rule| values::network_rule(rule))?,
        deny_private: keys
            .pick("network.deny_private", |raw| &raw.network.deny_private, true)
            .value,
    })
}

fn environment(keys: &mut Keys<'_>) -> Problem<Environment> {
    let pass = keys.pick("environment.pass", |raw| &raw.environment.pass, vec![]);
    let mut pass = pass.parse_each(|name| values::variable_name(name))?;
    let mut set = BTreeMap::new();
    for (name, picked) in keys.pick_entries("environment.set", |raw| &raw.environment.set) {
        let name = values::variable_name(&name).map_err(|reason| {
            picked.place.invalid_but(reason, "for example `PYTHONUNBUFFERED = \"1\"`")
        })?;
        if picked.value.contains('\0') {
            return Err(picked.place.invalid("must not have a NUL"));
        }
        set.insert(name, picked.value);
    }
    // One answer per name: what is set is not passed on as well.
    pass.retain(|name| !set.contains_key(name));
    Ok(Environment { pass, set })
}

fn limits(keys: &mut Keys<'_>) -> Problem<Limits> {
    let timeout = keys.pick("limits.timeout", |raw| &raw.limits.timeout, "60s".to_owned());
    let timeout_max =
        keys.pick("limits.timeout_max", |raw| &raw.limits.timeout_max, "15m".to_owned());
    let grace = keys.pick("limits.grace", |raw| &raw.limits.grace, "100ms".to_owned());
    let limits = Limits {
        timeout: timeout.parse(|text| more_than_zero(text))?,
        timeout_max: timeout_max.parse(|text| more_than_zero(text))?,
        grace: grace.parse(|text| duration(text))?,
        memory_mib: keys.pick("limits.memory_mib", |raw| &raw.limits.memory_mib, 1024).value,
        pids: keys.pick("limits.pids", |raw| &raw.limits.pids, 128).value,
        cpus: keys.pick("limits.cpus", |raw| &raw.limits.cpus, 1.0).value,
        file_size_mib: keys
            .pick("limits.file_size_mib", |raw| &raw.limits.file_size_mib, 512)
            .value,
        open_files: keys.pick("limits.open_files", |raw| &raw.limits.open_files, 512).value,
        output_kib: keys.pick("limits.output_kib", |raw| &raw.limits.output_kib, 64).value,
        output_file_mib: keys
            .pick("limits.output_file_mib", |raw| &raw.limits.output_file_mib, 64)
            .value,
        disk_mib: keys.pick("limits.disk_mib", |raw| &raw.limits.disk_mib, 1024).value,
    };
    if limits.timeout > limits.timeout_max {
        return Err(timeout.place.invalid_but(
            format!("is longer than `timeout_max`, {}", timeout_max.value),
            "shorten `timeout` or raise `timeout_max`",
        ));
    }
    if limits.grace > Duration::from_secs(60) {
        return Err(grace.place.invalid(format!("must be at most 60s, not `{}`", grace.value)));
    }
    Ok(limits)
}

fn more_than_zero(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("must be more than zero".to_owned()),
        length => Ok(length),
    }
}

fn container(keys: &mut Keys<'_>) -> Problem<Container> {
    let image = "cofferdam/python:3".to_owned();
    let image = keys.pick("container.image", |raw| &raw.container.image, image);
    let runtime = keys.pick("container.runtime", |raw| &raw.container.runtime, "runc".to_owned());
    let user = keys.pick("container.user", |raw| &raw.container.user, "65534:65534".to_owned());
    Ok(Container {
        image: image.parse(|text| values::word(text))?,
        runtime: runtime.parse(|text| values::word(text))?,
        user: user.parse(|text| values::user(text))?,
    })
}

fn python(keys: &mut Keys<'_>) -> Problem<Python> {
    let interpreter =
        keys.pick("python.interpreter", |raw| &raw.python.interpreter, "auto".to_owned());
    let interpreter = interpreter.parse(|text| match text.as_str() {
        "auto" => Ok(None),
        path => absolute_path(path)
            .map(Some)
            .map_err(|reason| reason.replace("must be", "must be `auto` or")),
    })?;
    Ok(Python { interpreter })
}

fn uv(keys: &mut Keys<'_>) -> Problem<Uv> {
    let subcommands =
        ["run", "add", "remove", "sync", "lock", "venv", "pip", "tree", "python", "init"];
    let subcommands = subcommands.map(str::to_owned).to_vec();
    let subcommands = keys.pick("uv.subcommands", |raw| &raw.uv.subcommands, subcommands);
    Ok(Uv { subcommands: subcommands.parse_each(|name| values::word(name))? })
}

fn pool(keys: &mut Keys<'_>) -> Problem<Pool> {
    let idle = keys.pick("pool.idle", |raw| &raw.pool.idle, "2m".to_owned());
    Ok(Pool {
        warm: keys.pick("pool.warm", |raw| &raw.pool.warm, 1).value,
        idle: idle.parse(|text| duration(text))?,
    })
}

fn approval(
    keys: &mut Keys<'_>,
    backends: &[BackendKind],
    host: &Host,
) -> Problem<Vec<ApprovalRule>> {
    const EVERYTHING: &str = "*";
    let unconfined = backends.contains(&BackendKind::Host) && host.confinement == Confinement::None;
    let mut rules = Vec::new();
    for (tool, picked) in keys.pick_entries("approval", |raw| &raw.approval) {
        let tool = values::tool_glob(&tool).map_err(|reason| {
            picked.place.invalid_but(reason, "for example `\"uv_tool.*\" = \"always\"`")
        })?;
        let when = picked.value;
        if unconfined && matches!(when, ApprovalWhen::Never | ApprovalWhen::Outside) {
            return Err(picked.place.invalid_but(
                format!("must not be `{}` with `host.confinement = \"none\"`", when.as_str()),
                "an unconfined call must be approved every time: `\"always\"` or `\"unsandboxed\"`",
            ));
        }
        rules.push(ApprovalRule { tool, when });
    }
    if !rules.iter().any(|rule| rule.tool == EVERYTHING) {
        rules.push(ApprovalRule { tool: EVERYTHING.to_owned(), when: ApprovalWhen::Unsandboxed });
        keys.defaulted("approval.\"*\"");
    }
    Ok(rules)
}
