//! Decoded contexts as words.

use pcce::decode::DecodeError;
use pcce::token::Token;
use pcce::{Context, Decoder, Frame, FrameKind};

/// A frame in a word: function name and line, boundaries in brackets.
pub fn short_frame(frame: &Frame<'_>) -> String {
    let name = frame.function.unwrap_or("-");
    match (frame.kind, frame.line) {
        (FrameKind::Call, Some(line)) => format!("{name}:{line}{}", if frame.inlined { "i" } else { "" }),
        (FrameKind::Call, None) => name.to_owned(),
        (kind, _) => format!("[{} {name}]", kind.name()),
    }
}

/// The frames of a token, each as a word.
pub fn frames_of(decoder: &Decoder, token: &Token) -> Result<String, DecodeError> {
    // Through the text, as a user's token comes.
    let token = Token::parse(token.encode()).unwrap();
    let mut context = Context::default();
    decoder.decode(&token, &mut context)?;
    let frames: Vec<_> = decoder.frames(&context).map(|frame| short_frame(&frame)).collect();
    Ok(frames.join(" "))
}
