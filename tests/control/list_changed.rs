//! Telling clients that their list of tools has changed.

use rustix::process::Signal;

use crate::{
    client::{Client, Era},
    owned::{BASH, Place, Transport, WAYS},
};

#[test]
fn clients_of_both_eras_are_told_over_both_transports() {
    for way in WAYS {
        let place = Place::new("");
        let (running, mut client) = place.start(way);
        let stream = client.listen();
        let mut owner = running.owner();
        // Nothing is served differently after this, so nobody is told.
        owner.set("no_such_tool", false);
        for active in [false, true] {
            owner.set("bash_*", active);
            client.expect_change(stream);
            assert_eq!(client.tools().iter().any(|tool| tool == BASH), active, "{way:?}");
        }
        assert!(!client.was_told(), "{way:?}: told of what did not happen");
    }
}

#[test]
fn a_change_right_after_the_acknowledgement_is_never_lost() {
    for transport in [Transport::Stdio, Transport::Http] {
        let place = Place::new("");
        let (running, mut client) = place.start((transport, Era::Modern));
        let mut owner = running.owner();
        for round in 0..40 {
            let stream = client.listen();
            owner.set("bash_*", round % 2 == 1);
            client.expect_change(stream);
        }
    }
}

#[test]
fn a_change_right_after_a_legacy_client_has_introduced_itself_is_never_lost() {
    let place = Place::new("");
    let running = place.serve(&[]);
    let mut owner = running.owner();
    for round in 0..40 {
        let mut client = Client::at_url(Era::Legacy, &running.url);
        owner.set("bash_*", round % 2 == 1);
        client.expect_change(None);
    }
}

#[test]
fn every_open_session_and_stream_is_told() {
    let place = Place::new("");
    let running = place.serve(&[]);
    let mut clients: Vec<_> = [Era::Legacy, Era::Modern, Era::Legacy, Era::Modern]
        .into_iter()
        .map(|era| Client::at_url(era, &running.url))
        .collect();
    let streams: Vec<_> = clients.iter_mut().map(Client::listen).collect();
    let second = clients[1].listen();
    running.owner().set("*", false);
    for (client, stream) in clients.iter_mut().zip(streams) {
        client.expect_change(stream);
    }
    clients[1].expect_change(second);
}

#[test]
fn who_listens_is_told_after_the_worker_was_started_again_though_nobody_calls() {
    for era in [Era::Legacy, Era::Modern] {
        let place = Place::new("");
        let (mut running, mut client) = place.start((Transport::Http, era));
        let stream = client.listen();
        running.kill_worker();
        // The list may be another one.
        client.expect_change(stream);
        running.owner().set("*", false);
        client.expect_change(stream);
        assert!(client.tools().is_empty());
    }
}

#[test]
fn a_stream_ends_with_a_result_when_the_server_is_told_to_end() {
    for transport in [Transport::Stdio, Transport::Http] {
        // Longer than this test waits: nobody waits for a stream.
        let place = Place::new("[server]\ndrain = \"1h\"\n");
        let (running, mut client) = place.start((transport, Era::Modern));
        let stream = client.listen().expect("a stream");
        running.server.supervisor.signal(Signal::TERM);
        let ended = client.answer(stream);
        assert!(ended["result"].is_object(), "{ended}");
        let (status, log) = running.server.finish();
        assert_eq!(status.code(), Some(0), "{log}");
    }
}

#[test]
fn a_client_that_closes_its_pipe_is_not_kept_by_its_open_stream() {
    let place = Place::new("[server]\ndrain = \"1h\"\n");
    let (running, mut client) = place.start((Transport::Stdio, Era::Modern));
    client.listen();
    client.close();
    let (status, log) = running.server.finish();
    assert_eq!(status.code(), Some(0), "{log}");
}
