//! What the audit log says of calls that a person was asked about.

use serde_json::{Value, json};

use crate::{
    ask::{BASH, counted, world},
    client::{Era, WAYS, can_ask, start},
    support::World,
};

/// The ends of the calls that were recorded, in order.
fn ends(world: &World) -> Vec<Value> {
    let log = world.home().join(".local/state/cofferdam/audit.jsonl");
    let text = std::fs::read_to_string(log).expect("there is a log");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    records.filter(|record| record["event"] == "end").collect()
}

#[test]
fn how_a_person_decided_is_recorded_with_the_digest_that_they_saw() {
    for way in WAYS {
        let world = world("");
        let (_served, mut client) = start(&world, way, &can_ask());
        let asked = client.call_until_asked(BASH, &counted());
        client.respond(&asked, &json!({ "action": "accept" }));
        let message = asked.elicitation["message"].as_str().expect("a message").to_owned();
        let asked = client.call_until_asked(BASH, &counted());
        client.respond(&asked, &json!({ "action": "decline" }));

        let ends = ends(&world);
        // A modern client's call is answered by the question, and made again.
        let (questions, decided): (Vec<_>, Vec<_>) =
            ends.iter().partition(|end| end["result"] == "needs_approval");
        assert_eq!(questions.len(), if way.1 == Era::Modern { 2 } else { 0 }, "{way:?}: {ends:#?}");
        let [agreed, refused] = &decided[..] else { panic!("{way:?}: {ends:#?}") };
        assert_eq!(agreed["approval"], "elicitation", "{way:?}");
        assert_eq!(agreed["run"]["verdict"], "ok", "{way:?}");
        assert_eq!(refused["code"], "denied", "{way:?}");
        assert!(refused.get("approval").is_none() && refused.get("run").is_none(), "{way:?}");
        for end in &ends {
            assert_eq!(end["tool"], BASH, "{way:?}");
            let digest = end["digest"].as_str().expect("a digest");
            assert!(message.contains(&format!("Arguments: sha256 {digest}")), "{way:?}: {message}");
        }
        for end in questions.iter().chain([agreed]) {
            assert_eq!(
                (&end["profile"], &end["generation"]),
                (&json!("ask"), &json!(1)),
                "{way:?}"
            );
        }
    }
}
