//! Programs that are traced, made at random.

#![allow(dead_code)]

use std::collections::BTreeMap;

use pcce_dictionary::Location;
use pcce_dictionary::trace::{Function, Kind, Node, Traced};

/// A generator of numbers (xorshift).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % end
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// An image: what it is in a process, and its modules.
#[derive(Clone, Debug)]
pub struct ImageOf {
    pub build_id: Vec<u8>,
    pub path: String,
    pub low: u64,
    pub high: u64,
    pub bias: u64,
    pub modules: Vec<Traced>,
}

/// A function of the world: image, module, and its number there.
pub type Place = (usize, usize, usize);

/// A program with its libraries.
#[derive(Clone, Debug)]
pub struct World {
    pub images: Vec<ImageOf>,
    /// All functions, in the order of the images, and for each of them the number of its first node.
    pub functions: Vec<Place>,
    pub first_nodes: Vec<u32>,
}

impl World {
    pub fn new(images: Vec<ImageOf>) -> Self {
        let mut functions = Vec::new();
        let mut first_nodes = Vec::new();
        let mut nodes = 0;
        for (i, image) in images.iter().enumerate() {
            for (m, module) in image.modules.iter().enumerate() {
                for (f, function) in module.functions.iter().enumerate() {
                    functions.push((i, m, f));
                    first_nodes.push(nodes);
                    nodes += function.nodes.len() as u32;
                }
            }
        }
        Self { images, functions, first_nodes }
    }

    /// A world at random.
    pub fn random(random: &mut Random) -> Self {
        let images = 1 + random.below(2);
        let image = |number: u64, random: &mut Random| {
            let low = 0x5550_0000_0000 + number * 0x1000_0000;
            let mut modules: Vec<Traced> =
                (0..1 + random.below(2)).map(|m| module(number, m, random)).collect();
            call_each_other(&mut modules, random);
            ImageOf {
                build_id: vec![0xa0 + number as u8; 20],
                path: format!("/lib/image{number}"),
                low,
                high: low + 0x1000_0000,
                bias: low - 0x1000,
                modules,
            }
        };
        Self::new((0..images).map(|number| image(number, random)).collect())
    }

    pub fn function(&self, number: u32) -> &Function {
        let (i, m, f) = self.functions[number as usize];
        &self.images[i].modules[m].functions[f]
    }

    pub fn module(&self, number: u32) -> &Traced {
        let (i, m, _) = self.functions[number as usize];
        &self.images[i].modules[m]
    }

    /// Its address in the process.
    pub fn address(&self, number: u32) -> u64 {
        let (i, m, f) = self.functions[number as usize];
        self.images[i].modules[m].addresses[f] + self.images[i].bias
    }

    /// The number of a function of another module that a module calls.
    pub fn other(&self, of: u32, number: u32) -> u32 {
        let address = self.module(of).other_addresses[number as usize];
        let image = self.functions[of as usize].0;
        let found = self
            .functions
            .iter()
            .position(|&(i, m, f)| i == image && self.images[i].modules[m].addresses[f] == address);
        found.expect("it is a function's") as u32
    }

    /// The number of a function of the same module.
    pub fn sibling(&self, of: u32, number: u32) -> u32 {
        of - self.functions[of as usize].2 as u32 + number
    }
}

/// Makes calls of other modules of some calls that write bits.
fn call_each_other(modules: &mut [Traced], random: &mut Random) {
    let functions = modules.iter().enumerate().flat_map(|(m, module)| {
        let functions = module.functions.iter().zip(&module.addresses);
        functions.filter(|(function, _)| !function.checked).map(move |(_, address)| (m, *address))
    });
    let functions: Vec<(usize, u64)> = functions.collect();
    for (m, module) in modules.iter_mut().enumerate() {
        let callees: Vec<u64> =
            functions.iter().filter(|(of, _)| *of != m).map(|(_, address)| *address).collect();
        for node in module.functions.iter_mut().flat_map(|function| &mut function.nodes) {
            if matches!(node.kind, Kind::Call(_))
                && node.bits > 0
                && !callees.is_empty()
                && random.percent(30)
            {
                node.kind = Kind::Other(module.others);
                module.others += 1;
                module.other_addresses.push(callees[random.below(callees.len() as u64) as usize]);
            }
        }
    }
}

/// A module: functions whose calls and returns follow each other at random.
fn module(image: u64, number: u64, random: &mut Random) -> Traced {
    let count = 1 + random.below(6) as u32;
    let mut functions: Vec<Function> = (0..count).map(|f| function(f, count, random)).collect();
    // Who may leave its activation to unknown code.
    loop {
        let leaves = |f: &Function| {
            f.nodes.iter().any(|node| match node.kind {
                Kind::LeaveOpen(_) => true,
                Kind::Leave(callee) => functions[callee as usize].checked,
                _ => false,
            })
        };
        let checked: Vec<bool> = functions.iter().map(leaves).collect();
        let stable = functions.iter().zip(&checked).all(|(f, checked)| f.checked == *checked);
        functions.iter_mut().zip(checked).for_each(|(f, checked)| f.checked = checked);
        if stable {
            break;
        }
    }
    let names = (0..count).map(|f| format!("f{image}_{number}_{f}")).chain(["puts".to_owned()]).collect();
    Traced {
        name: format!("m{image}_{number}.c"),
        key: random.below(u64::MAX),
        files: vec!["/src/a.c".to_owned()],
        names,
        addresses: (0..u64::from(count)).map(|f| 0x2000 + number * 0x10_0000 + f * 0x40).collect(),
        functions,
        part: None,
        others: 0,
        other_addresses: Vec::new(),
        sites: 0,
    }
}

fn function(number: u32, count: u32, random: &mut Random) -> Function {
    let len = 2 + random.below(9) as u32;
    let mut nodes: Vec<Node> = (0..len)
        .map(|n| {
            let callee = random.below(u64::from(count)) as u32;
            let kind = match random.below(14) {
                _ if n == 0 => Kind::Return,
                0..4 => Kind::Call(callee),
                4 => Kind::Closed(count),
                5 => Kind::Block,
                6 | 7 => Kind::Open(if random.percent(50) { Some(count) } else { None }),
                8 => Kind::ReturnsTwice(None),
                9 => Kind::Return,
                10 => Kind::Leave(callee),
                11 => Kind::LeaveOpen(None),
                12 => Kind::Resume,
                _ => Kind::Landing,
            };
            let location = |line| Location { name: number, file: 0, line, column: 1 };
            let locations = vec![location(n + 1)];
            Node {
                kind,
                code: 0,
                bits: 0,
                next: 0,
                unwinds_to: None,
                site: None,
                locations,
                lines: Vec::new(),
            }
        })
        .collect();
    let pads: Vec<u32> = (0..len).filter(|n| nodes[*n as usize].kind == Kind::Landing).collect();
    let events: Vec<u32> = (0..len).filter(|n| nodes[*n as usize].kind != Kind::Landing).collect();
    let mut sets = Vec::new();
    let mut choice = |random: &mut Random| {
        let mut set: Vec<u32> = match random.below(10) {
            0 => Vec::new(),
            1..4 => vec![events[random.below(events.len() as u64) as usize]],
            _ => events.iter().copied().filter(|_| random.percent(35)).collect(),
        };
        set.sort_unstable();
        sets.push(set);
        sets.len() as u32 - 1
    };
    let first = choice(random);
    for node in &mut nodes {
        node.next = choice(random);
        if !pads.is_empty() && matches!(node.kind, Kind::Call(_) | Kind::Open(_)) && random.percent(50) {
            node.unwinds_to = Some(pads[random.below(pads.len() as u64) as usize]);
        }
    }
    // Codes of a tree of all events, for those that have siblings; and so that no way around goes without one.
    let codes = codes(&events, random);
    for &n in &events {
        let sibling = sets.iter().any(|set| set.len() > 1 && set.contains(&n));
        let back = (0..len).any(|m| m >= n && sets[nodes[m as usize].next as usize].contains(&n));
        let recursive = matches!(nodes[n as usize].kind, Kind::Call(g) | Kind::Leave(g) if g <= number);
        if sibling || back || recursive || random.percent(10) {
            (nodes[n as usize].code, nodes[n as usize].bits) = codes[&n];
        }
    }
    Function { name: number, first, nodes, sets, checked: false }
}

/// Codes none of which begins another one: some of them long.
fn codes(events: &[u32], random: &mut Random) -> BTreeMap<u32, (u32, u8)> {
    let mut codes = BTreeMap::new();
    let mut parts = vec![(events.to_vec(), 0_u32, 0_u8)];
    while let Some((mut part, code, bits)) = parts.pop() {
        if part.len() == 1 {
            let (code, bits) = if bits == 0 { (u32::from(random.percent(50)), 1) } else { (code, bits) };
            codes.insert(part[0], (code, bits));
            continue;
        }
        // Often one against all others, so that codes get long.
        let at = if random.percent(60) { 1 } else { part.len() / 2 };
        let rest = part.split_off(at);
        parts.push((part, code << 1, bits + 1));
        parts.push((rest, code << 1 | 1, bits + 1));
    }
    codes
}
