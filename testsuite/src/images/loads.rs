//! What it costs if additions inside an image take their values from a table (docs/images.md): changes the code of a
//! link in lto mode, as `lld --save-temps` leaves it in front of code generation, and `llvm-dis` writes it. Where a
//! call and its reversal are in one block, the value is kept between them.

use std::collections::HashMap;
use std::fmt::Write as _;

/// Where values are taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// From the one table of the image.
    Table,
    /// From the table of the thread's epoch.
    Epoch,
}

/// An addition to the id: a load, an addition, and a store, each a line of LLVM's assembly.
struct Addition<'l> {
    loaded: &'l str,
    sum: &'l str,
    value: i64,
}

fn addition<'l>(lines: &[&'l str]) -> Option<Addition<'l>> {
    let [load, add, store, ..] = lines else { return None };
    let (loaded, load) = load.strip_prefix("  ")?.split_once(" = ")?;
    let (sum, add) = add.strip_prefix("  ")?.split_once(" = add i64 ")?;
    let (operand, value) = add.split_once(", ")?;
    let is_one = load.starts_with("load i64, ptr @__pcce_tls, align 8")
        && operand == loaded
        && store.starts_with(&format!("  store i64 {sum}, ptr @__pcce_tls,"));
    let end = value.find(|c: char| c != '-' && !c.is_ascii_digit()).unwrap_or(value.len());
    Some(Addition { loaded, sum, value: value[..end].parse().ok().filter(|_| is_one)? })
}

/// The same code with its values in a table.
///
/// # Errors
/// There are no variables in it: it is no such code.
pub fn with_loads(code: &str, from: From) -> anyhow::Result<String> {
    let lines: Vec<&str> = code.lines().collect();
    let (mut result, mut values) = (String::new(), Vec::new());
    // By value, the register that has it in this block.
    let mut kept: HashMap<i64, usize> = HashMap::new();
    let mut at = 0;
    while let Some(&line) = lines.get(at) {
        let label = line.split_once(':').map_or("", |(label, _)| label);
        let is_label =
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if is_label || line.starts_with("define") || line == "}" {
            kept.clear();
        }
        result += line;
        result.push('\n');
        at += 1;
        let Some(Addition { loaded, sum, value }) = addition(&lines[at - 1..]) else { continue };
        if let Some(number) = kept.remove(&value.wrapping_neg()).filter(|_| value < 0) {
            writeln!(result, "  {sum} = sub i64 {loaded}, %tv{number}")?;
        } else {
            let number = values.len();
            let offset = 8 * number;
            let mut place = format!("getelementptr inbounds (i8, ptr @pcce_value_table, i64 {offset})");
            if from == From::Epoch {
                writeln!(result, "  %tb{number} = load ptr, ptr @pcce_epoch_table, align 8")?;
                writeln!(result, "  %tp{number} = getelementptr i8, ptr %tb{number}, i64 {offset}")?;
                place = format!("%tp{number}");
            }
            writeln!(result, "  %tv{number} = load i64, ptr {place}, align 8")?;
            writeln!(result, "  {sum} = add i64 {loaded}, %tv{number}")?;
            values.push(format!("i64 {value}"));
            if value > 0 {
                kept.insert(value, number);
            }
        }
        writeln!(result, "{}", lines[at + 1])?;
        at += 2;
    }
    let (count, table) = (values.len(), values.join(", "));
    let mut variables = format!("@pcce_value_table = dso_local global [{count} x i64] [{table}], align 16\n");
    if from == From::Epoch {
        variables +=
            "@pcce_epoch_table = dso_local thread_local(localexec) global ptr @pcce_value_table, align 8\n";
    }
    let first = result.find("\n@").ok_or_else(|| anyhow::anyhow!("there is no variable in it"))?;
    result.insert_str(first + 1, &variables);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_block_are_loaded_once() {
        let update = |before: &str, after: &str, value: i64| {
            format!(
                "  {before} = load i64, ptr @__pcce_tls, align 8\n  {after} = add i64 {before}, {value}\n  \
                 store i64 {after}, ptr @__pcce_tls, align 8\n"
            )
        };
        let [there, back] = [update("%1", "%2", 7), update("%3", "%4", -7)];
        let call = "  call void @f()\n";
        let block = format!("{there}{call}{back}");
        let code = format!("target\n@a = global i64 0\ndefine void @g() {{\n{block}2:\n{back}}}\n");
        let table = with_loads(&code, From::Table).unwrap();
        assert!(table.contains("global [2 x i64] [i64 7, i64 -7]"), "{table}");
        assert!(
            table.contains("%2 = add i64 %1, %tv0") && table.contains("%4 = sub i64 %3, %tv0"),
            "{table}"
        );
        assert!(table.contains("%4 = add i64 %3, %tv1") && !table.contains("add i64 %1, 7"), "{table}");
        let epoch = with_loads(&code, From::Epoch).unwrap();
        assert_eq!(epoch.matches("load ptr, ptr @pcce_epoch_table").count(), 2, "{epoch}");
        assert!(with_loads("no code\n", From::Table).is_err());
    }
}
