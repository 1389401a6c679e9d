//! Tokens of many builds: each goes to a session with the dictionaries of its images.

use std::collections::HashMap;

use crate::context::threads;
use crate::decode::DecodeError;
use crate::numbers::Numbers;
use crate::session::store::Store;
use crate::token::{BuildId, Token};

use super::{Failure, Session, number};

/// The sessions of dictionaries that were looked for.
#[derive(Debug)]
pub(super) struct Found<'d> {
    store: &'d Store,
    /// By the address of the decoder, which does not move.
    sessions: HashMap<usize, Session<'d>>,
    /// The session that decoded the last token, if it is not the one of the dictionaries given.
    last: Option<usize>,
    /// The build of the crash report that is read.
    build: String,
    token: Token,
    scratch: Vec<u8>,
}

impl<'d> Found<'d> {
    pub(super) fn new(store: &'d Store) -> Self {
        Self {
            store,
            sessions: HashMap::new(),
            last: None,
            build: String::new(),
            token: Token::default(),
            scratch: Vec::new(),
        }
    }

    /// Remembers the build of the next tokens' program.
    pub(super) fn learn(&mut self, build_id: &str) {
        self.store.learn(build_id);
        build_id.clone_into(&mut self.build);
    }

    /// Called before a token that the given dictionaries may decode.
    pub(super) fn forget_last(&mut self) {
        self.last = None;
    }

    /// The session that decoded the last token.
    pub(super) fn last(&self) -> Option<&Session<'d>> {
        self.sessions.get(&self.last?)
    }

    /// The session for a token, by the dictionaries of its images, if some were found. `given`: the session of the
    /// given dictionaries.
    pub(super) fn session(&mut self, given: &Session<'d>, text: &[u8]) -> Option<&mut Session<'d>> {
        let images = self.images(text, given.decoder.numbers());
        let decoder = self.store.decoder(&images);
        self.last = decoder.map(|decoder| std::ptr::from_ref(decoder).addr());
        let (decoder, address) = (decoder?, self.last?);
        let session = self.sessions.entry(address).or_insert_with(|| given.like(decoder));
        session.of_program = given.of_program || decoder.has_build(&self.build);
        session.renderer.any = given.renderer.any;
        Some(session)
    }

    /// The images of a token or interned number, and those of the tokens of where its thread comes from.
    fn images(&mut self, text: &[u8], numbers: Option<&Numbers>) -> Vec<BuildId> {
        let mut images = Vec::new();
        let parts = threads::split(text);
        let single = parts.is_none().then_some(text);
        let several = parts.into_iter().flat_map(|parts| {
            std::iter::once(parts.first).chain(parts.origins.into_iter().map(|origin| origin.token))
        });
        for token in single.into_iter().chain(several) {
            if self.token.parse_into(token, &mut self.scratch).is_ok() {
                images.extend_from_slice(&self.token.images);
            } else if let (Some(Some(number)), Some(numbers)) = (number(token), numbers) {
                images.append(&mut numbers.images(number));
            }
        }
        images
    }

    /// Makes a failure that lacks a dictionary say where it was looked for.
    pub(super) fn explained(&self, failure: Failure) -> Failure {
        match failure {
            failure if !self.store.searches() => failure,
            Failure::Decode(DecodeError::OtherBuild { token, .. }) => {
                Failure::NotFound { ids: token, places: self.store.looked() }
            }
            Failure::Decode(DecodeError::NoRange { number }) => Failure::NumberAlone { number },
            other => other,
        }
    }
}
