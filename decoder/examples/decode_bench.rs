//! How many tokens a second are decoded, on one core.
//!
//! `cargo run --release -p pcce --example decode_bench [FOLDER]` makes a dictionary of an
//! interpreter's size (500 functions, 3000 edges, half of the sites in inlined code) and streams of a
//! million tokens of random contexts in it, with none, half and most of them from a set of hot ones,
//! decodes them in each format, and prints the rates. With FOLDER it also writes `bench.json` and
//! `bench0.tokens` and so on there, for `pcce decode` itself.

use std::collections::HashSet;
use std::io::{self, Write};
use std::time::Instant;

use pcce::Decoder;
use pcce::render::Format;
use pcce::session::{Outcome, Session};
use pcce::token::{BuildId, Capture, PushedFrame, Token};
use pcce_dictionary::{
    Dictionary, Edge, EdgeCode, EncodedFunction, Encoding, Function, Location, Module, Site, SiteKind,
};

const FUNCTIONS: u32 = 500;
const EDGES: u32 = 3000;
const TOKENS: usize = 1_000_000;
const SITES_ADDRESS: u64 = 0x20_0000;

/// xorshift64*: the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// A layered call graph: `main`, then functions that call those behind them, mostly near ones;
/// one site in ten is a call through a pointer, as an interpreter's calls of its built-in functions.
fn dictionary(random: &mut Random) -> Dictionary {
    let mut module = Module {
        name: "interpreter.c".to_owned(),
        producer: "bench".to_owned(),
        sites_address: SITES_ADDRESS,
        files: (0..40).map(|i| format!("/build/interpreter-5.4.6/src/part{i:02}.c")).collect(),
        names: (0..FUNCTIONS)
            .map(|i| format!("interp_{}_{i}", ["run", "table_get", "gc", "parse"][i as usize % 4]))
            .collect(),
        ..Module::default()
    };
    let mut encoding = Encoding {
        module_count: 1,
        open_num_cc: Some(1), // ids are not negated
        ..Encoding::default()
    };
    let mut pairs: Vec<(u32, u32)> = (1..FUNCTIONS)
        .map(|callee| (callee - 1 - random.below(u64::from(callee.min(60))) as u32, callee))
        .collect();
    while pairs.len() < EDGES as usize {
        let callee = 20 + random.below(u64::from(FUNCTIONS) - 20) as u32;
        let caller = callee - 1 - random.below(u64::from(callee.min(90))) as u32;
        pairs.push((caller, callee));
    }
    // A function in ten can be entered by a push.
    let entry = |function: u32| function == 0 || function % 10 == 3;
    let mut num_cc: Vec<u64> = (0..FUNCTIONS).map(|function| u64::from(entry(function))).collect();
    pairs.sort_unstable_by_key(|(_, callee)| *callee);
    let locations = |random: &mut Random, function: u32| {
        let place = |random: &mut Random, name| Location {
            name,
            file: name % 40,
            line: 1 + random.below(3000) as u32,
            column: 1 + random.below(80) as u32,
        };
        let mut chain = Vec::new();
        if random.below(2) == 0 {
            let inlined = random.below(u64::from(FUNCTIONS)) as u32;
            chain.push(place(random, inlined));
        }
        chain.push(place(random, function));
        chain
    };
    for (caller, callee) in pairs {
        let site = module.sites.len() as u32;
        let value = num_cc[callee as usize];
        let code = match value.checked_add(num_cc[caller as usize]) {
            Some(sum) if sum < 1 << 60 => {
                num_cc[callee as usize] = sum;
                EdgeCode::Add(value)
            }
            _ => panic!("the graph is too large for 64-bit ids"),
        };
        module.sites.push(Site {
            function: caller,
            kind: SiteKind::Direct(Some(callee)),
            tail_group: None,
            locations: locations(random, caller),
        });
        encoding.edges.push(Edge { site, callee: None, code });
    }
    for function in 0..FUNCTIONS {
        module.functions.push(Function { name: function, ..Function::default() });
        encoding.functions.push(EncodedFunction {
            num_cc: num_cc[function as usize],
            entry: entry(function),
            ..EncodedFunction::default()
        });
        for kind in [SiteKind::Capture, SiteKind::Indirect] {
            module.sites.push(Site {
                function,
                kind,
                tail_group: None,
                locations: locations(random, function),
            });
        }
    }
    Dictionary {
        build_id: "00112233445566778899aabbccddeeff00112233".to_owned(),
        program: "interpreter".to_owned(),
        modules: vec![module],
        encodings: vec![encoding],
        ..Dictionary::default()
    }
}

fn tokens(dictionary: &Dictionary, random: &mut Random, repeated: u64) -> Vec<u8> {
    let functions = &dictionary.encodings[0].functions;
    let image = BuildId::from_prefix(&[0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77]);
    let site = |function: u64, kind: u64| SITES_ADDRESS + u64::from(EDGES) + function * 2 + kind;
    // The first tenth of the functions: sub-paths of about four calls.
    let place = |random: &mut Random| {
        let function = random.below(60);
        (function, random.below(functions[function as usize].num_cc))
    };
    let mut texts = Vec::with_capacity(TOKENS * 90);
    let mut old: Vec<String> = Vec::new();
    for i in 0..TOKENS {
        if i > 1000 && random.below(100) < repeated {
            texts.extend_from_slice(old[random.below(old.len() as u64) as usize].as_bytes());
        } else {
            let (function, id) = place(random);
            let capture = Some(Capture { image: 0, site: site(function, 0), id, distance: 0 });
            let frames = (0..1 + random.below(2))
                .map(|_| {
                    let (function, id) = place(random);
                    PushedFrame { image: 0, site: site(function, 1), left: false, id, distance: 0, count: 1 }
                })
                .collect();
            let token = Token { images: vec![image], capture, frames, ..Token::default() }.encode();
            texts.extend_from_slice(token.as_bytes());
            if old.len() < 1000 {
                old.push(token);
            }
        }
        texts.push(b'\n');
    }
    texts
}

/// Counts bytes, as `/dev/null` does, and reads none: what is measured is decoding, not a disk.
#[derive(Default)]
struct Sink(u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The user time of this process, in seconds: on a machine that others use, too, it says more than the
/// clock. None where the system does not tell.
fn user_time() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let ticks: f64 = stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse().ok()?;
    Some(ticks / 100.0)
}

fn main() -> io::Result<()> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let dictionary = dictionary(&mut random);
    let folder = std::env::args_os().nth(1).map(std::path::PathBuf::from);
    if let Some(folder) = &folder {
        std::fs::write(folder.join("bench.json"), pcce_dictionary::to_json(&dictionary))?;
    }
    let decoder = Decoder::new(std::slice::from_ref(&dictionary)).expect("the dictionary is consistent");
    for repeated in [0, 50, 95] {
        let texts = tokens(&dictionary, &mut random, repeated);
        if let Some(folder) = &folder {
            std::fs::write(folder.join(format!("bench{repeated}.tokens")), &texts)?;
        }
        measure(&decoder, &texts, repeated)?;
    }
    Ok(())
}

fn measure(decoder: &Decoder, texts: &[u8], repeated: u64) -> io::Result<()> {
    let lines = || texts.split(|byte| *byte == b'\n').filter(|text| !text.is_empty());
    let different = lines().collect::<HashSet<_>>().len();
    let mut frames = 0;
    let mut context = pcce::Context::default();
    for text in lines().take(10_000) {
        decoder.decode(&Token::parse(text).expect("a token"), &mut context).expect("it fits");
        frames += decoder.frames(&context).count();
    }
    println!(
        "{TOKENS} tokens, {repeated} % of 1000 hot ones; {different} different, {} bytes and {:.1} frames each",
        texts.len() / TOKENS,
        frames as f64 / 10_000.0
    );
    for (name, format) in [("text", Format::Text), ("json", Format::Json), ("folded", Format::Folded)] {
        let mut best = f64::INFINITY;
        let mut best_user = f64::INFINITY;
        let mut bytes = 0;
        for _ in 0..5 {
            let mut session = Session::new(decoder, format);
            let mut out = io::BufWriter::with_capacity(1 << 18, Sink::default());
            let (start, start_user) = (Instant::now(), user_time());
            for text in lines() {
                assert_eq!(session.decode(text, &mut out)?, Outcome::Decoded);
            }
            out.flush()?;
            best = best.min(start.elapsed().as_secs_f64());
            if let (Some(start), Some(end)) = (start_user, user_time()) {
                best_user = best_user.min(end - start);
            }
            bytes = out.get_ref().0;
        }
        let millions = |seconds: f64| TOKENS as f64 / seconds / 1e6;
        println!(
            "  {name:7} {:5.2} million tokens/s by the clock, {:5.2} by user time; {:.2} GB of output (best of 5)",
            millions(best),
            millions(best_user),
            bytes as f64 / 1e9
        );
    }
    Ok(())
}
