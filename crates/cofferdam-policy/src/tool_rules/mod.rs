//! Which tools are served: an ordered list of rules, and what the owner of a running server set in
//! front of it. EvoFabric's semantics.
//!
//! Pure: the time is a fact that is passed in. Not here: whether a call of an active tool may run
//! ([`authorize`](crate::authorize)).

mod pattern;

pub use pattern::{PatternError, ToolPattern};

/// Most rules that can be set at run time.
pub const MOST_RUN_TIME_RULES: usize = 256;

/// The rules of a configuration: the first that matches decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRules {
    /// Whether a tool is served that no rule matches.
    pub default_active: bool,
    /// In the order in which they are asked.
    pub rules: Vec<ToolRule>,
}

/// One rule of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRule {
    /// About which tools.
    pub pattern: ToolPattern,
    /// Whether they are served.
    pub active: bool,
    /// Where it is written, for people.
    pub origin: String,
}

/// What was set at run time: asked before every rule of the configuration, the newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTimeRules {
    rules: Vec<RunTimeRule>,
}

/// One rule set at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunTimeRule {
    /// About which tools.
    pub pattern: ToolPattern,
    /// Whether they are served.
    pub active: bool,
    /// From when on it is forgotten, on the clock of whoever asks.
    pub expires_at_ms: Option<u64>,
}

/// Another rule would be one too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are {MOST_RUN_TIME_RULES} patterns set at run time already")]
pub struct TooManyRules;

/// Which rule decided about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecidedBy<'a> {
    /// One set at run time.
    RunTime(&'a RunTimeRule),
    /// One of the configuration.
    Rule(&'a ToolRule),
    /// None: the default.
    Default,
}

impl Default for ToolRules {
    /// Every tool is served.
    fn default() -> Self {
        Self { default_active: true, rules: Vec::new() }
    }
}

impl ToolRules {
    /// Whether that tool is served at `now_ms`, and which rule says so.
    pub fn decide<'a>(
        &'a self,
        set: &'a RunTimeRules,
        name: &str,
        now_ms: u64,
    ) -> (bool, DecidedBy<'a>) {
        if let Some(rule) = set.in_force(now_ms).find(|rule| rule.pattern.matches(name)) {
            return (rule.active, DecidedBy::RunTime(rule));
        }
        match self.rules.iter().find(|rule| rule.pattern.matches(name)) {
            Some(rule) => (rule.active, DecidedBy::Rule(rule)),
            None => (self.default_active, DecidedBy::Default),
        }
    }

    /// Whether that tool is served at `now_ms`.
    pub fn is_active(&self, set: &RunTimeRules, name: &str, now_ms: u64) -> bool {
        self.decide(set, name, now_ms).0
    }
}

impl RunTimeRules {
    /// Puts a rule in front of all others. An older one with the same pattern is replaced.
    ///
    /// # Errors
    /// [`TooManyRules`], and nothing is changed.
    pub fn set(&mut self, rule: RunTimeRule) -> Result<(), TooManyRules> {
        let is_new = self.rules.iter().all(|other| other.pattern != rule.pattern);
        if is_new && self.rules.len() >= MOST_RUN_TIME_RULES {
            return Err(TooManyRules);
        }
        self.rules.retain(|other| other.pattern != rule.pattern);
        self.rules.insert(0, rule);
        Ok(())
    }

    /// Takes the rule with exactly this pattern away. Whether there was one.
    pub fn forget(&mut self, pattern: &str) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.pattern.as_str() != pattern);
        self.rules.len() < before
    }

    /// Takes away what has expired. Whether there was anything.
    pub fn forget_expired(&mut self, now_ms: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.is_in_force(now_ms));
        self.rules.len() < before
    }

    /// The rules in force at `now_ms`, in the order in which they are asked.
    pub fn in_force(&self, now_ms: u64) -> impl Iterator<Item = &RunTimeRule> {
        self.rules.iter().filter(move |rule| rule.is_in_force(now_ms))
    }

    /// When the next one expires.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.rules.iter().filter_map(|rule| rule.expires_at_ms).min()
    }
}

impl RunTimeRule {
    fn is_in_force(&self, now_ms: u64) -> bool {
        self.expires_at_ms.is_none_or(|end| now_ms < end)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pattern(text: &str) -> ToolPattern {
        text.parse().expect(text)
    }

    fn rules(default_active: bool, rules: &[(&str, bool)]) -> ToolRules {
        let rules = rules.iter().enumerate().map(|(index, (text, active))| ToolRule {
            pattern: pattern(text),
            active: *active,
            origin: format!("rule {index}"),
        });
        ToolRules { default_active, rules: rules.collect() }
    }

    fn set(set: &mut RunTimeRules, text: &str, active: bool, expires_at_ms: Option<u64>) {
        set.set(RunTimeRule { pattern: pattern(text), active, expires_at_ms }).expect("room");
    }

    #[test]
    fn the_first_rule_that_matches_decides_and_else_the_default() {
        let none = RunTimeRules::default();
        let rules = rules(false, &[("a.b", true), ("a.*", false), ("*", true)]);
        for (name, expected) in [("a.b", true), ("a.c", false), ("c", true)] {
            assert_eq!(rules.is_active(&none, name, 0), expected, "{name}");
        }
        let empty = ToolRules { default_active: false, rules: Vec::new() };
        assert_eq!(empty.decide(&none, "a.b", 0), (false, DecidedBy::Default));
        assert!(ToolRules::default().is_active(&none, "a.b", 0));
    }

    #[test]
    fn what_is_set_at_run_time_goes_before_every_rule_and_the_newest_before_the_others() {
        let rules = rules(true, &[("a.*", false)]);
        let mut now = RunTimeRules::default();
        set(&mut now, "a.b", true, None);
        assert!(rules.is_active(&now, "a.b", 0));
        assert!(!rules.is_active(&now, "a.c", 0));
        set(&mut now, "*", false, None);
        assert!(!rules.is_active(&now, "a.b", 0));
        set(&mut now, "a.b", true, None);
        assert!(rules.is_active(&now, "a.b", 0), "set again is newest");
        assert_eq!(now.in_force(0).count(), 2, "the same pattern is there once");
    }

    #[test]
    fn what_is_forgotten_or_expired_lets_the_rules_below_decide_again() {
        let rules = rules(true, &[("a.*", false)]);
        let mut now = RunTimeRules::default();
        set(&mut now, "a.*", true, Some(1_000));
        set(&mut now, "b", false, None);
        assert_eq!(now.next_expiry_ms(), Some(1_000));
        assert!(rules.is_active(&now, "a.b", 999));
        assert!(!rules.is_active(&now, "a.b", 1_000), "also before it is taken away");
        assert!(!now.forget_expired(999));
        assert!(now.forget_expired(1_000));
        assert_eq!(now.next_expiry_ms(), None);
        assert!(!now.forget("B"));
        assert!(now.forget("b"));
        assert!(rules.is_active(&now, "b", 0));
    }

    #[test]
    fn the_rules_set_at_run_time_are_bounded() {
        let mut now = RunTimeRules::default();
        for index in 0..MOST_RUN_TIME_RULES {
            set(&mut now, &format!("tool{index}"), false, None);
        }
        let before = now.clone();
        let one_more = RunTimeRule { pattern: pattern("x"), active: true, expires_at_ms: None };
        assert_eq!(now.set(one_more), Err(TooManyRules));
        assert_eq!(now, before);
        set(&mut now, "tool7", true, None);
    }

    /// What EvoFabric's own `ToolController` decides; `tests/mcp/evofabric_oracle.py` asks it.
    const EVOFABRIC: &str = include_str!("../../../../tests/mcp/evofabric_table.json");

    #[derive(serde::Deserialize)]
    struct Table {
        names: Vec<String>,
        patterns: Vec<Row>,
        scenarios: Vec<Scenario>,
    }

    #[derive(serde::Deserialize)]
    struct Row {
        pattern: String,
        matches: Vec<String>,
    }

    #[derive(serde::Deserialize)]
    struct Scenario {
        default_mode: String,
        rules: Vec<(String, String)>,
        changes: Vec<(String, String)>,
        active: Vec<String>,
    }

    fn evofabric() -> Table {
        serde_json::from_str(EVOFABRIC).expect("the table")
    }

    #[test]
    fn every_pattern_matches_what_it_matches_in_evofabric() {
        let table = evofabric();
        assert!(table.patterns.len() > 100);
        let is_legal = |name: &String| {
            !name.is_empty()
                && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
        };
        let mut refused = 0;
        for Row { pattern, matches } in &table.patterns {
            match pattern.parse::<ToolPattern>() {
                Ok(ours) => {
                    let found: Vec<_> = table.names.iter().filter(|it| ours.matches(it)).collect();
                    assert_eq!(found, matches.iter().collect::<Vec<_>>(), "{pattern:?}");
                }
                // Refused where it is written, because it can match no name that a tool may have.
                Err(_) => {
                    refused += 1;
                    assert!(!matches.iter().any(is_legal), "{pattern:?} matches {matches:?}");
                }
            }
        }
        assert_eq!(refused, 8, "only the unclosed classes");
    }

    #[test]
    fn every_set_of_rules_decides_as_in_evofabric_also_after_changes_at_run_time() {
        let table = evofabric();
        for scenario in &table.scenarios {
            let is_on = |mode: &String| mode == "activate";
            let listed: Vec<_> = scenario
                .rules
                .iter()
                .map(|(mode, pattern)| (pattern.as_str(), is_on(mode)))
                .collect();
            let rules = rules(is_on(&scenario.default_mode), &listed);
            let mut now = RunTimeRules::default();
            for (change, pattern) in &scenario.changes {
                set(&mut now, pattern, is_on(change), None);
            }
            let active: Vec<_> =
                table.names.iter().filter(|name| rules.is_active(&now, name, 0)).collect();
            assert_eq!(
                active,
                scenario.active.iter().collect::<Vec<_>>(),
                "{:?} then {:?}",
                scenario.rules,
                scenario.changes
            );
        }
    }

    #[test]
    fn a_hundred_thousand_rules_are_asked_in_no_time() {
        let many: Vec<_> =
            (0..100_000).map(|index| (format!("*tool{index}.[a-z]*"), true)).collect();
        let borrowed: Vec<_> = many.iter().map(|(text, active)| (text.as_str(), *active)).collect();
        let rules = rules(false, &borrowed);
        assert!(rules.is_active(&RunTimeRules::default(), "tool99999.x", 0));
        assert!(!rules.is_active(&RunTimeRules::default(), "tool.x", 0));
    }

    proptest! {
        #[test]
        fn an_unrelated_rule_never_turns_a_no_into_a_yes(
            listed in prop::collection::vec(("[a-c*?]{1,4}", any::<bool>()), 0..6),
            at in 0_usize..7,
            name in "[a-c]{1,4}",
            default in any::<bool>(),
        ) {
            let listed: Vec<_> =
                listed.iter().map(|(text, active)| (text.as_str(), *active)).collect();
            let before = rules(default, &listed);
            let mut more = listed.clone();
            // No name of these letters is matched by it.
            more.insert(at.min(listed.len()), ("other.*", true));
            let after = rules(default, &more);
            let none = RunTimeRules::default();
            prop_assert_eq!(before.is_active(&none, &name, 0), after.is_active(&none, &name, 0));
        }
    }
}
