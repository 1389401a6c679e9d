//! Each test imitates what emitted code does: it fills frames on the stack and sets the thread's block.

use super::*;
use crate::abi::Frame;
use crate::fiber::ANYWHERE;
use crate::state::tls;
use pcce::token::Token;
use std::string::String;
use std::vec::Vec;

static SITES: [u8; 64] = [0; 64];

fn site(i: usize) -> *const u8 {
    &raw const SITES[i]
}

/// A chain of frames, the outermost first; the last one is the innermost.
fn chain(frames: &[(usize, u64)]) -> Vec<Frame> {
    let mut chain: Vec<Frame> = Vec::with_capacity(frames.len());
    for &(s, id) in frames {
        let prev = chain.last_mut().map_or(Link::NULL, |f| Link::new(f));
        chain.push(Frame::new(prev, id, site(s)));
    }
    chain
}

fn with_state<R>(id: u64, frames: &mut [Frame], then: impl FnOnce() -> R) -> R {
    // SAFETY: this thread's block; the frames outlive the call.
    unsafe {
        (*tls()).stack_high = ANYWHERE;
        (*tls()).id = id;
        (*tls()).top = frames.last_mut().map_or(Link::NULL, |f| Link::new(f));
        let result = then();
        (*tls()).id = 0;
        (*tls()).top = Link::NULL;
        result
    }
}

fn take(size: usize, capture: *const u8) -> (String, usize) {
    let mut buf = [0x7f_u8; 4096];
    // SAFETY: the buffer is larger than every size used here.
    let len = unsafe { __pcce_token(buf.as_mut_ptr().cast(), size, capture) };
    assert!(buf[size..].iter().all(|&b| b == 0x7f), "wrote behind the buffer of {size} bytes");
    let end = buf.iter().position(|&b| b == 0).unwrap_or(0);
    (String::from_utf8(buf[..end].to_vec()).unwrap(), len)
}

#[test]
fn a_token_holds_site_id_and_frames() {
    let mut frames = chain(&[(3, 7), (4, 1 << 40), (4, 1 << 40), (4, 1 << 40), (9, 0)]);
    let (text, len) = with_state(u64::MAX, &mut frames, || take(4096, site(12)));
    assert_eq!(text.len(), len);
    let token = Token::parse(&text).unwrap();
    let base = token.capture.unwrap().site - 12;
    assert_eq!(token.capture.unwrap().id, u64::MAX);
    let got: Vec<_> = token.frames.iter().map(|f| (f.site - base, f.id, f.count)).collect();
    assert_eq!(got, [(9, 0, 1), (4, 1 << 40, 3), (3, 7, 1)]);
    assert_eq!((token.images.len(), token.cut, token.damaged), (1, false, false));
}

#[test]
fn every_size_of_buffer_gives_a_valid_token_or_none() {
    let list: Vec<(usize, u64)> = (0..40).map(|i| (i, i as u64 * 1000)).collect();
    let mut frames = chain(&list);
    let (whole, len) = with_state(5, &mut frames, || take(4096, site(50)));
    let whole = Token::parse(&whole).unwrap();
    let mut longest = 0;
    for size in 0..=len + 1 {
        let (text, reported) = with_state(5, &mut frames, || take(size, site(50)));
        assert_eq!(reported, len);
        if text.is_empty() {
            assert_eq!(longest, 0, "nothing at {size}, though less room was enough before");
            continue;
        }
        let token = Token::parse(&text).unwrap();
        assert_eq!(token.cut, size <= len);
        assert_eq!(token.frames, whole.frames[..token.frames.len()]);
        assert!(token.frames.len() >= longest);
        longest = token.frames.len();
    }
    assert_eq!(longest, 40);
}

#[test]
fn a_token_says_whether_ids_count_from_a_missing_frame() {
    // Ids count from every third frame.
    let relative = |i: usize| i.is_multiple_of(3);
    let mut frames: Vec<Frame> = Vec::with_capacity(12);
    for i in 0..12 {
        let link = if i > 0 && relative(i - 1) { Link::relative } else { Link::new };
        let prev = frames.last_mut().map_or(Link::NULL, |f| link(f));
        frames.push(Frame::new(prev, i as u64 * 1000, site(i)));
    }
    let len = with_state(5, &mut frames, || take(4096, site(50))).1;
    let mut seen = [0; 2];
    for size in 0..=len {
        let (text, _) = with_state(5, &mut frames, || take(size, site(50)));
        let Some(token) = (!text.is_empty()).then(|| Token::parse(&text).unwrap()) else { continue };
        assert!(token.cut);
        // The link to the innermost frame is plain.
        let missing = 11 - token.frames.len();
        assert_eq!(token.start_missing, relative(missing) && missing < 11, "{size}");
        seen[usize::from(token.start_missing)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 1), "{seen:?}");
    for damaged in 0..11 {
        let site = std::mem::replace(&mut frames[damaged].marked_site, 16 as *const u8);
        let (text, _) = with_state(5, &mut frames, || take(4096, self::site(50)));
        let token = Token::parse(&text).unwrap();
        assert_eq!((token.damaged, token.frames.len()), (true, 11 - damaged));
        assert_eq!(token.start_missing, relative(damaged));
        frames[damaged].marked_site = site;
    }
}

#[test]
fn a_frame_of_no_image_ends_the_token_as_damaged() {
    let mut frames = chain(&[(1, 1), (2, 2), (3, 3)]);
    frames[1].marked_site = 16 as *const u8;
    let (text, _) = with_state(0, &mut frames, || take(4096, site(0)));
    let token = Token::parse(&text).unwrap();
    assert!(token.damaged);
    assert_eq!(token.frames.len(), 1);
}

#[test]
fn no_context_is_an_empty_token() {
    assert_eq!(take(64, null()), (String::new(), 0));
    let mut frames = chain(&[(1, 1)]);
    let (text, _) = with_state(0, &mut frames, || take(4096, null()));
    assert_eq!(Token::parse(&text).unwrap().capture, None);
}
