//! Order, bounds, and who leaves when.

use std::pin::{Pin, pin};

use futures_util::FutureExt;

use super::*;

type Turn = Pin<Box<dyn Future<Output = Result<Permit, NotAdmitted>> + Send>>;

fn queue(serial: bool, max_running: usize, max_queued: usize) -> Queue {
    Queue::new(QueueLimits { serial, max_running, max_queued })
}

fn admit(queue: &Queue, session: &str) -> Turn {
    Box::pin(queue.admit(session, Weight::Heavy, CancellationToken::new()))
}

fn light(queue: &Queue, session: &str) -> Turn {
    Box::pin(queue.admit(session, Weight::Light, CancellationToken::new()))
}

/// The permit, when it is there already.
fn now(turn: &mut Turn) -> Option<Permit> {
    turn.now_or_never().map(|admitted| admitted.unwrap())
}

#[test]
fn calls_of_one_session_run_one_after_the_other_in_order() {
    let queue = queue(true, 8, 8);
    let (mut first, mut second, mut third) =
        (admit(&queue, "a"), admit(&queue, "a"), admit(&queue, "a"));
    let running = now(&mut first).unwrap();
    assert!(now(&mut second).is_none() && now(&mut third).is_none());
    drop(running);
    assert!(now(&mut third).is_none());
    let running = now(&mut second).unwrap();
    assert!(now(&mut third).is_none());
    drop(running);
    assert!(now(&mut third).is_some());
}

#[test]
fn sessions_run_beside_each_other() {
    let queue = queue(true, 8, 8);
    let (mut one, mut held_up, mut other) =
        (admit(&queue, "a"), admit(&queue, "a"), admit(&queue, "b"));
    let _one = now(&mut one).unwrap();
    assert!(now(&mut held_up).is_none());
    assert!(now(&mut other).is_some());
}

#[test]
fn concurrent_mode_runs_calls_of_one_session_beside_each_other() {
    let queue = queue(false, 8, 8);
    let (mut first, mut second) = (admit(&queue, "a"), admit(&queue, "a"));
    let _first = now(&mut first).unwrap();
    assert!(now(&mut second).is_some());
}

#[test]
fn the_whole_server_runs_no_more_than_allowed() {
    let queue = queue(true, 2, 8);
    let mut turns: Vec<_> =
        ["a", "b", "c", "d"].iter().map(|session| admit(&queue, session)).collect();
    let first = now(&mut turns[0]).unwrap();
    let _second = now(&mut turns[1]).unwrap();
    assert!(now(&mut turns[2]).is_none());
    assert_eq!(queue.load(), (2, 2));
    drop(first);
    assert!(now(&mut turns[3]).is_none(), "the one that came later must not overtake");
    assert!(now(&mut turns[2]).is_some());
}

#[test]
fn one_waiting_call_too_many_is_refused_at_once() {
    let queue = queue(true, 1, 2);
    let mut first = admit(&queue, "a");
    let running = now(&mut first).unwrap();
    let (mut second, mut third) = (admit(&queue, "b"), admit(&queue, "a"));
    assert!(now(&mut second).is_none() && now(&mut third).is_none());
    let refused = admit(&queue, "c").now_or_never().unwrap().unwrap_err();
    assert_eq!(refused, NotAdmitted::Busy);
    drop(running);
    assert!(now(&mut second).is_some(), "those who waited keep their places");
}

#[test]
fn without_waiting_places_a_free_place_is_still_given() {
    let queue = queue(true, 1, 0);
    let running = now(&mut admit(&queue, "a")).unwrap();
    assert!(matches!(admit(&queue, "b").now_or_never(), Some(Err(NotAdmitted::Busy))));
    drop(running);
    assert!(now(&mut admit(&queue, "b")).is_some());
}

#[test]
fn a_cancelled_waiting_call_leaves_the_queue() {
    let queue = queue(true, 1, 1);
    let running = now(&mut admit(&queue, "a")).unwrap();
    let cancel = CancellationToken::new();
    let mut waiting = pin!(queue.admit("a", Weight::Heavy, cancel.clone()));
    assert!(waiting.as_mut().now_or_never().is_none());
    cancel.cancel();
    assert!(matches!(waiting.now_or_never(), Some(Err(NotAdmitted::Cancelled))));
    assert_eq!(queue.load(), (1, 0));
    let mut next = admit(&queue, "a");
    drop(running);
    assert!(now(&mut next).is_some());
}

#[test]
fn a_dropped_waiting_call_leaves_the_queue_even_if_its_turn_had_come() {
    let queue = queue(true, 1, 4);
    let running = now(&mut admit(&queue, "a")).unwrap();
    let dropped = admit(&queue, "a");
    let mut next = admit(&queue, "a");
    drop(running);
    assert_eq!(queue.load(), (1, 1), "the turn has been given and not been taken");
    drop(dropped);
    assert!(now(&mut next).is_some());
}

#[test]
fn light_calls_keep_the_order_of_their_session_and_need_no_free_place() {
    let queue = queue(true, 1, 8);
    let running = now(&mut admit(&queue, "a")).unwrap();
    let (mut behind, mut free) = (light(&queue, "a"), light(&queue, "b"));
    assert!(now(&mut behind).is_none());
    assert!(now(&mut free).is_some());
    drop(running);
    assert!(now(&mut behind).is_some());
    assert_eq!(queue.load(), (0, 0));
}

#[test]
fn a_light_call_does_not_overtake_a_heavy_one_of_its_session() {
    let queue = queue(true, 1, 8);
    let running = now(&mut admit(&queue, "a")).unwrap();
    let (mut heavy, mut behind) = (admit(&queue, "b"), light(&queue, "b"));
    assert!(now(&mut heavy).is_none() && now(&mut behind).is_none());
    drop(running);
    let heavy = now(&mut heavy).unwrap();
    assert!(now(&mut behind).is_none());
    drop(heavy);
    assert!(now(&mut behind).is_some());
}

#[test]
fn a_call_that_steps_aside_holds_nothing_up_and_comes_back_before_later_ones() {
    let queue = queue(true, 1, 0);
    let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
    assert_eq!(queue.load(), (0, 0));
    let running = now(&mut admit(&queue, "a")).unwrap();
    let mut back: Turn = Box::pin(away.come_back(CancellationToken::new()));
    assert!(now(&mut back).is_none());
    assert_eq!(queue.load(), (1, 1), "the bound on waiting calls is not for it");
    drop(running);
    let back = now(&mut back).unwrap();
    assert!(matches!(admit(&queue, "a").now_or_never(), Some(Err(NotAdmitted::Busy))));
    drop(back);
    assert!(now(&mut admit(&queue, "a")).is_some());
}

#[test]
fn a_call_that_comes_back_is_let_in_before_those_that_wait() {
    let queue = queue(true, 1, 8);
    let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
    let running = now(&mut admit(&queue, "b")).unwrap();
    let mut later = admit(&queue, "a");
    assert!(now(&mut later).is_none());
    let mut back: Turn = Box::pin(away.come_back(CancellationToken::new()));
    drop(running);
    assert!(now(&mut later).is_none());
    assert!(now(&mut back).is_some());
}

#[test]
fn a_cancelled_call_does_not_come_back() {
    let queue = queue(true, 1, 8);
    let away = now(&mut admit(&queue, "a")).unwrap().step_aside();
    let _running = now(&mut admit(&queue, "b")).unwrap();
    let cancel = CancellationToken::new();
    let mut back: Turn = Box::pin(away.come_back(cancel.clone()));
    assert!(now(&mut back).is_none());
    cancel.cancel();
    assert!(matches!(back.now_or_never(), Some(Err(NotAdmitted::Cancelled))));
    assert_eq!(queue.load(), (1, 0));
}

#[test]
fn a_limit_of_no_running_calls_counts_as_one() {
    assert!(now(&mut admit(&queue(true, 0, 4), "a")).is_some());
}
