//! Names with the constraints of a template's parameters, as clang 18 and later, and GCC 14 and later, write them:
//! declarations of parameters (`Tk` and others of the Itanium ABI), requirements (`Q`), friends (`F`), and templates
//! that are lambdas. The demangler does not know them.
//!
//! So the mangled name is rewritten without them. The types in them count among the substitutions, so these stay in
//! the name, as further arguments between two marks: the hidden part. An argument with a declaration becomes a pack,
//! which has the number of the one argument. The text between the marks is removed after demangling. The reader knows
//! just enough of the grammar to see where types and expressions end.

/// The marks: arguments at the beginning and at the end of a hidden part.
const BEGIN: &str = "18302718302710001";
const END: &str = "18302718302710002";

/// A hidden part is in the template arguments of a function, after this number of other arguments. Template parameters
/// in the hidden part refer to these. Otherwise they might refer to the argument that contains them.
const PARAMETERS: usize = 16;

/// Longer names, and those that nest deeper, are left alone.
const MAX_LEN: usize = 1 << 14;
const MAX_DEPTH: u32 = 128;

/// Demangles a name with constraints. None if it has none, or is not understood. `demangle` is for names without
/// constraints.
pub fn demangle(linkage: &str, demangle: impl Fn(&str) -> Option<String>) -> Option<String> {
    let is_read = linkage.is_ascii() && linkage.len() <= MAX_LEN && !linkage.contains(&BEGIN[..13]);
    let mut reader = Reader { rest: linkage.strip_prefix("_Z").filter(|_| is_read)?, ..Reader::default() };
    reader.write("_Z");
    reader.encoding()?;
    if !reader.is_changed || !(reader.rest.is_empty() || reader.rest.starts_with('.')) {
        return None;
    }
    let rest = reader.rest;
    reader.out.push_str(rest);
    without_marked(&demangle(&reader.out)?)
}

/// The text without the parts between the marks. None if it is not clear where these end.
fn without_marked(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((shown, marked)) = rest.split_once(BEGIN) {
        out.push_str(shown);
        // After the mark, there may be the rest of the pattern that expands a pack, such as `&&`.
        rest = after_marked(marked)?.trim_start_matches("const").trim_start_matches([' ', '*', '&']);
        if let Some(after) = rest.strip_prefix(", ") {
            rest = after;
        } else if rest.starts_with(['>', ')']) {
            let kept = out.strip_suffix(", ").unwrap_or(&out).len();
            out.truncate(kept);
            if rest.starts_with('>') && out.ends_with('>') {
                out.push(' ');
            }
        } else {
            return None;
        }
    }
    out.push_str(rest);
    (!out.contains(END)).then_some(out)
}

/// The text after the end mark that belongs to the mark before `text`. Between them there must be whole arguments:
/// where a pack is only a part of the pattern that is expanded, parts of other arguments would be lost.
fn after_marked(text: &str) -> Option<&str> {
    let mut brackets = 0_u32;
    // The number of open brackets at each mark whose end mark is to come.
    let mut begun = vec![0];
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(BEGIN) {
            begun.push(brackets);
            rest = after;
            continue;
        }
        if let Some(after) = rest.strip_prefix(END) {
            if begun.pop()? != brackets {
                return None;
            }
            if begun.is_empty() {
                return Some(after);
            }
            rest = after;
            continue;
        }
        match c {
            '(' => brackets += 1,
            ')' => brackets = brackets.checked_sub(1).filter(|open| Some(open) >= begun.last())?,
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    None
}

/// Reads a name and writes it again. Its functions return None where the name is not understood.
#[derive(Default)]
struct Reader<'n> {
    rest: &'n str,
    out: String,
    /// True in a hidden part: only types are written, each as an argument of its own.
    is_hidden: bool,
    is_changed: bool,
    /// True if the name that was read last is that of a constructor's template.
    is_constructor: bool,
    depth: u32,
}

impl<'n> Reader<'n> {
    fn next(&self) -> u8 {
        self.byte(0)
    }

    fn byte(&self, at: usize) -> u8 {
        self.rest.as_bytes().get(at).copied().unwrap_or(0)
    }

    fn is(&self, prefix: &str) -> bool {
        self.rest.starts_with(prefix)
    }

    fn write(&mut self, text: &str) {
        if !self.is_hidden {
            self.out.push_str(text);
        }
    }

    /// Takes `len` characters, and writes them.
    fn take(&mut self, len: usize) -> Option<&'n str> {
        let taken = self.rest.get(..len)?;
        self.rest = &self.rest[len..];
        self.write(taken);
        Some(taken)
    }

    /// Takes `len` characters, and leaves them out.
    fn skip(&mut self, len: usize) -> Option<()> {
        self.rest = self.rest.get(len..)?;
        self.is_changed = true;
        Some(())
    }

    fn take_if(&mut self, text: &str) -> bool {
        self.is(text) && self.take(text.len()).is_some()
    }

    fn expect(&mut self, text: &str) -> Option<()> {
        self.take_if(text).then_some(())
    }

    /// Digits and capital letters up to a `_`, as in the number of a substitution.
    fn number(&mut self) -> Option<()> {
        let is_digit = |b: &u8| b.is_ascii_digit() || b.is_ascii_uppercase();
        let len = self.rest.bytes().take_while(is_digit).count();
        self.take(len)?;
        self.expect("_")
    }

    fn digits(&mut self) -> Option<()> {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        self.take(len).map(|_| ())
    }

    /// Calls `read` until an `E` follows.
    fn list(&mut self, read: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        while !self.take_if("E") {
            read(self)?;
        }
        Some(())
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    /// Writes what `read` takes as arguments between the marks.
    fn hidden(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.is_changed = true;
        self.write(&format!("Li{BEGIN}EL_ZSaI{}", "i".repeat(PARAMETERS)));
        let was = std::mem::replace(&mut self.is_hidden, true);
        read(self)?;
        self.is_hidden = was;
        self.write(&format!("EvvELi{END}E"));
        Some(())
    }

    /// Takes a part that is no argument, and is not shown.
    fn dropped(&mut self, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        self.is_changed = true;
        let written = self.out.len();
        let was = std::mem::replace(&mut self.is_hidden, true);
        read(self)?;
        self.is_hidden = was;
        if self.out.len() > written {
            // The part counts among the substitutions, and more of them follow.
            if self.rest.contains('S') {
                return None;
            }
            self.out.truncate(written);
        }
        Some(())
    }

    /// In a hidden part: writes what `read` takes, as an argument.
    fn shown(&mut self, start: &str, read: impl FnOnce(&mut Self) -> Option<()>) -> Option<()> {
        let was = std::mem::replace(&mut self.is_hidden, false);
        let (taken, written) = (self.rest, self.out.len());
        if was {
            self.out.push_str(start);
        }
        self.deeper(read)?;
        if was {
            self.out.push('E');
        }
        let taken = &taken[..taken.len() - self.rest.len()];
        let is_substitution = taken.starts_with('S') && taken.ends_with('_');
        if was && (is_substitution || taken.len() == 1) {
            // It is no new substitution.
            self.out.truncate(written);
        }
        self.is_hidden = was;
        Some(())
    }

    fn encoding(&mut self) -> Option<()> {
        if self.next() == b'G' || self.next() == b'T' {
            return self.special();
        }
        self.is_constructor = false;
        self.name()?;
        // The demangler takes the first parameter of a constructor's template for the type that it returns.
        if self.is_constructor && !self.ends_encoding() {
            self.write("v");
        }
        while !self.ends_encoding() {
            self.kind()?;
        }
        self.requirement()
    }

    fn ends_encoding(&self) -> bool {
        matches!(self.next(), 0 | b'E' | b'.' | b'Q')
    }

    fn special(&mut self) -> Option<()> {
        match self.take(2)? {
            "TV" | "TT" | "TI" | "TS" => self.kind(),
            "GV" | "TW" | "TH" => self.name(),
            "GR" => {
                self.name()?;
                self.number()
            }
            kind @ ("Th" | "Tv") => {
                for _ in 0..if kind == "Th" { 1 } else { 2 } {
                    self.take_if("n");
                    self.number()?;
                }
                self.encoding()
            }
            _ => None,
        }
    }

    /// A requirement after the parameters.
    fn requirement(&mut self) -> Option<()> {
        if self.next() != b'Q' {
            return Some(());
        }
        self.dropped(|reader| {
            reader.skip(1)?;
            reader.expression()
        })
    }

    fn name(&mut self) -> Option<()> {
        match self.next() {
            b'N' => self.deeper(Self::nested)?,
            b'Z' => self.deeper(Self::local)?,
            b'S' if self.byte(1) != b't' => self.substitution()?,
            _ => {
                self.take_if("St");
                self.unqualified()?;
            }
        }
        self.arguments_if_any()
    }

    fn substitution(&mut self) -> Option<()> {
        if self.byte(1).is_ascii_lowercase() {
            return self.take(2).map(|_| ());
        }
        self.expect("S")?;
        self.number()
    }

    fn nested(&mut self) -> Option<()> {
        self.expect("N")?;
        // An explicit object parameter, of C++23.
        if self.is("H") {
            self.skip(1)?;
        }
        while matches!(self.next(), b'r' | b'V' | b'K') {
            self.take(1)?;
        }
        if matches!(self.next(), b'R' | b'O') {
            self.take(1)?;
        }
        let (mut last, mut is_constructor) = (0, false);
        while !self.take_if("E") {
            let next = self.next();
            is_constructor = next == b'I' && last == b'C';
            last = next;
            match next {
                b'S' if self.byte(1) == b't' => self.take(2).map(|_| ())?,
                b'S' => self.substitution()?,
                b'T' => self.parameter()?,
                b'I' => self.arguments()?,
                b'D' if matches!(self.byte(1), b't' | b'T') => self.decltype()?,
                b'M' => self.take(1).map(|_| ())?,
                _ => self.unqualified()?,
            }
        }
        self.is_constructor = is_constructor;
        Some(())
    }

    fn local(&mut self) -> Option<()> {
        self.expect("Z")?;
        self.encoding()?;
        self.expect("E")?;
        if self.take_if("d") {
            self.take_if("n");
            self.number()?;
        }
        if self.take_if("s") {
            return self.discriminator();
        }
        self.name()?;
        self.discriminator()
    }

    fn discriminator(&mut self) -> Option<()> {
        if self.take_if("__") {
            return self.number();
        }
        if self.take_if("_") {
            return self.digits();
        }
        Some(())
    }

    fn unqualified(&mut self) -> Option<()> {
        if self.is("F") {
            self.skip(1)?;
        }
        self.take_if("L");
        match self.next() {
            b'0'..=b'9' => self.source_name()?,
            b'C' => {
                let is_inherited = self.byte(1) == b'I';
                self.take(if is_inherited { 3 } else { 2 })?;
                if is_inherited {
                    self.kind()?;
                }
            }
            b'D' if self.byte(1) == b'C' => {
                self.take(2)?;
                self.list(Self::source_name)?;
            }
            b'D' => self.take(2).map(|_| ())?,
            b'U' if self.byte(1) == b't' => {
                self.take(2)?;
                self.number()?;
            }
            b'U' if self.byte(1) == b'l' => self.deeper(Self::lambda)?,
            _ => self.operator()?,
        }
        while self.take_if("B") {
            self.source_name()?;
        }
        Some(())
    }

    fn source_name(&mut self) -> Option<()> {
        let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let len: usize = self.rest[..digits].parse().ok().filter(|len| *len > 0)?;
        self.take(digits.checked_add(len)?).map(|_| ())
    }

    fn operator(&mut self) -> Option<()> {
        let name = self.take(2)?;
        match name {
            "cv" => self.kind(),
            "li" => self.source_name(),
            _ if name.starts_with('v') => self.source_name(),
            _ => name.starts_with(|c: char| c.is_ascii_lowercase()).then_some(()),
        }
    }

    fn lambda(&mut self) -> Option<()> {
        self.expect("Ul")?;
        while self.is_declaration() {
            self.dropped(Self::declaration)?;
        }
        self.requirement()?;
        while !matches!(self.next(), b'E' | b'Q') {
            self.kind()?;
        }
        self.requirement()?;
        self.expect("E")?;
        self.number()
    }

    fn arguments_if_any(&mut self) -> Option<()> {
        if self.next() == b'I' { self.arguments() } else { Some(()) }
    }

    fn arguments(&mut self) -> Option<()> {
        self.expect("I")?;
        self.deeper(|reader| {
            reader.list(|reader| {
                if reader.next() != b'Q' {
                    return reader.argument();
                }
                reader.write("J");
                reader.hidden(|reader| {
                    reader.skip(1)?;
                    reader.expression()
                })?;
                reader.write("E");
                Some(())
            })
        })
    }

    fn argument(&mut self) -> Option<()> {
        match self.next() {
            b'L' => self.literal(),
            b'X' => {
                self.take(1)?;
                self.expression()?;
                self.expect("E")
            }
            b'J' => {
                self.take(1)?;
                self.deeper(|reader| reader.list(Self::argument))
            }
            b'T' if self.is_declaration() => self.declared_argument(),
            _ => self.kind(),
        }
    }

    /// An argument with the declaration of its parameter becomes a pack.
    fn declared_argument(&mut self) -> Option<()> {
        // A declaration that names nothing.
        if self.is("Ty") {
            self.skip(2)?;
            return self.argument();
        }
        self.write("J");
        self.hidden(Self::declaration)?;
        // A pack has the marks among its own arguments, so what expands it does so for them, too.
        let is_pack = self.is("J");
        if is_pack {
            self.skip(1)?;
            return self.deeper(|reader| reader.list(Self::argument));
        }
        self.argument()?;
        self.write("E");
        Some(())
    }

    fn is_declaration(&self) -> bool {
        self.next() == b'T' && matches!(self.byte(1), b'y' | b'k' | b'n' | b't' | b'p')
    }

    /// The declaration of a template's parameter.
    fn declaration(&mut self) -> Option<()> {
        match self.take(2)? {
            "Ty" => Some(()),
            "Tk" => self.concept(),
            "Tn" => self.kind(),
            "Tp" => self.deeper(Self::declaration),
            "Tt" => self.deeper(|reader| {
                reader.list(|reader| match reader.next() {
                    b'Q' => reader.requirement(),
                    _ => reader.declaration(),
                })
            }),
            _ => None,
        }
    }

    /// The name of a concept, in a hidden part. It is written like the name of a function, which is no substitution
    /// itself.
    fn concept(&mut self) -> Option<()> {
        let (start, written) = (self.rest, self.out.len());
        if self.next().is_ascii_digit() || self.is("St") {
            self.take_if("St");
            self.unqualified()?;
            if self.next() != b'I' {
                return Some(());
            }
        }
        self.rest = start;
        self.out.truncate(written);
        self.shown("L_Z", Self::name)
    }

    fn parameter(&mut self) -> Option<()> {
        self.expect("T")?;
        // The number of the enclosing template, if that is not the innermost.
        if self.is("L") {
            self.skip(1)?;
            let level = self.rest.find('_')?;
            self.skip(level + 1)?;
        }
        self.number()
    }

    fn decltype(&mut self) -> Option<()> {
        self.take(2)?;
        self.expression()?;
        self.expect("E")
    }

    /// A type.
    fn kind(&mut self) -> Option<()> {
        self.shown("Xst", Self::kind_itself)
    }

    fn kind_itself(&mut self) -> Option<()> {
        match self.next() {
            b'r' | b'V' | b'K' | b'P' | b'R' | b'O' | b'C' | b'G' => {
                self.take(1)?;
                self.kind()
            }
            b'U' if self.byte(1).is_ascii_digit() => {
                self.take(1)?;
                self.source_name()?;
                self.arguments_if_any()?;
                self.kind()
            }
            b'u' => {
                self.take(1)?;
                self.source_name()?;
                self.arguments_if_any()
            }
            b'a'..=b'z' => self.take(1).map(|_| ()),
            b'F' => {
                self.take(1)?;
                self.take_if("Y");
                self.list(|reader| match reader.next() {
                    b'R' | b'O' if reader.byte(1) == b'E' => reader.take(1).map(|_| ()),
                    _ => reader.kind(),
                })
            }
            b'A' => {
                self.take(1)?;
                self.bound()?;
                self.kind()
            }
            b'M' => {
                self.take(1)?;
                self.kind()?;
                self.kind()
            }
            b'T' if matches!(self.byte(1), b's' | b'u' | b'e') => {
                self.take(2)?;
                self.name()
            }
            b'T' => {
                self.parameter()?;
                self.arguments_if_any()
            }
            b'D' => self.kind_with_d(),
            _ => self.name(),
        }
    }

    /// The size of an array, a vector, or an integer.
    fn bound(&mut self) -> Option<()> {
        if !self.is("_") && !self.next().is_ascii_digit() {
            self.expression()?;
        }
        self.number()
    }

    fn kind_with_d(&mut self) -> Option<()> {
        match self.byte(1) {
            b'p' => {
                self.take(2)?;
                self.kind()
            }
            b't' | b'T' => {
                self.decltype()?;
                self.arguments_if_any()
            }
            b'v' => {
                self.take(2)?;
                self.take_if("_");
                self.bound()?;
                self.kind()
            }
            b'F' => {
                self.take(2)?;
                self.digits()?;
                (self.take_if("_") || self.take_if("b") || self.take_if("x")).then_some(())
            }
            b'B' | b'U' => {
                self.take(2)?;
                self.bound()
            }
            b'o' => {
                self.take(2)?;
                self.kind()
            }
            b'O' => {
                self.decltype()?;
                self.kind()
            }
            b'w' => {
                self.take(2)?;
                self.list(Self::kind)?;
                self.kind()
            }
            // `auto` and `decltype(auto)` with a constraint.
            b'k' | b'K' => {
                let plain = if self.byte(1) == b'k' { "Da" } else { "Dc" };
                self.skip(2)?;
                self.dropped(Self::concept)?;
                self.write(plain);
                Some(())
            }
            b'a' | b'c' | b'd' | b'e' | b'f' | b'h' | b'i' | b'n' | b's' | b'u' => self.take(2).map(|_| ()),
            _ => None,
        }
    }

    fn literal(&mut self) -> Option<()> {
        self.expect("L")?;
        if self.take_if("_Z") {
            let written = |reader: &mut Self| {
                reader.encoding()?;
                reader.expect("E")
            };
            // The function's name counts among the substitutions.
            if !self.is_hidden {
                return self.deeper(written);
            }
            self.is_hidden = false;
            self.write("L_Z");
            self.deeper(written)?;
            self.is_hidden = true;
            return Some(());
        }
        self.kind()?;
        let value = self.rest.find('E')?;
        self.take(value)?;
        self.expect("E")
    }

    fn expression(&mut self) -> Option<()> {
        self.deeper(Self::expression_itself)
    }

    fn expressions(&mut self, count: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.expression())
    }

    fn expression_itself(&mut self) -> Option<()> {
        match self.next() {
            b'L' => return self.literal(),
            // In an expression, a parameter is no substitution.
            b'T' => return self.parameter(),
            b'0'..=b'9' => return self.simple_name(),
            b'u' => {
                self.take(1)?;
                self.source_name()?;
                return self.list(Self::argument);
            }
            _ => {}
        }
        if self.is("gs") {
            self.take(2)?;
        }
        match self.take(2)? {
            "ps" | "ng" | "ad" | "de" | "co" | "nt" | "nx" | "sz" | "az" | "te" | "tw" | "sp" | "dl"
            | "da" | "aw" => self.expression(),
            "pp" | "mm" => {
                self.take_if("_");
                self.expression()
            }
            "pl" | "mi" | "ml" | "dv" | "rm" | "an" | "or" | "eo" | "aS" | "pL" | "mI" | "mL" | "dV"
            | "rM" | "aN" | "oR" | "eO" | "ls" | "rs" | "lS" | "rS" | "eq" | "ne" | "lt" | "gt" | "le"
            | "ge" | "ss" | "aa" | "oo" | "cm" | "pm" | "ix" | "ds" | "dt" | "pt" => self.expressions(2),
            "qu" => self.expressions(3),
            "cl" | "cp" => self.list(Self::expression),
            "cv" => {
                self.kind()?;
                if self.take_if("_") { self.list(Self::expression) } else { self.expression() }
            }
            "tl" => {
                self.kind()?;
                self.list(Self::expression)
            }
            "il" => self.list(Self::expression),
            "di" => {
                self.source_name()?;
                self.expression()
            }
            "dx" => self.expressions(2),
            "dX" => self.expressions(3),
            "dc" | "sc" | "cc" | "rc" => {
                self.kind()?;
                self.expression()
            }
            "ti" | "st" | "at" => self.kind(),
            "nw" | "na" => {
                while !self.take_if("_") {
                    self.expression()?;
                }
                self.kind()?;
                if self.take_if("E") {
                    return Some(());
                }
                self.take_if("pi");
                self.list(Self::expression)
            }
            "fp" if self.take_if("T") => Some(()),
            "fp" => {
                self.qualifiers();
                self.number()
            }
            "fL" if self.next().is_ascii_digit() => {
                self.digits()?;
                self.expect("p")?;
                self.qualifiers();
                self.number()
            }
            "fl" | "fr" => {
                self.take(2)?;
                self.expression()
            }
            "fL" | "fR" => {
                self.take(2)?;
                self.expressions(2)
            }
            "sZ" if self.is("T") => self.parameter(),
            "sZ" => self.expression(),
            "sP" => self.list(Self::argument),
            "tr" => Some(()),
            "on" => {
                self.operator()?;
                self.arguments_if_any()
            }
            "dn" => {
                if self.next().is_ascii_digit() {
                    self.simple_name()
                } else {
                    self.kind()
                }
            }
            "sr" => self.scoped_name(),
            "rq" => self.list(Self::asked),
            "rQ" => {
                while !self.take_if("_") {
                    self.kind()?;
                }
                self.list(Self::asked)
            }
            _ => None,
        }
    }

    fn qualifiers(&mut self) {
        while self.take_if("r") || self.take_if("V") || self.take_if("K") {}
    }

    /// One of the requirements in braces.
    fn asked(&mut self) -> Option<()> {
        match self.take(1)? {
            "X" => {
                self.expression()?;
                self.take_if("N");
                if self.take_if("R") { self.concept() } else { Some(()) }
            }
            "T" => self.kind(),
            "Q" => self.expression(),
            _ => None,
        }
    }

    /// A name whose scope is not known yet.
    fn scoped_name(&mut self) -> Option<()> {
        if self.take_if("N") {
            self.kind()?;
            self.list(Self::simple_name)?;
        } else if self.next().is_ascii_digit() {
            self.list(Self::simple_name)?;
        } else {
            self.kind()?;
        }
        match self.next() {
            b'0'..=b'9' => self.simple_name(),
            _ => match self.take(2)? {
                "on" => {
                    self.operator()?;
                    self.arguments_if_any()
                }
                "dn" if self.next().is_ascii_digit() => self.simple_name(),
                "dn" => self.kind(),
                _ => None,
            },
        }
    }

    fn simple_name(&mut self) -> Option<()> {
        self.source_name()?;
        self.arguments_if_any()
    }
}

#[cfg(test)]
mod tests;
