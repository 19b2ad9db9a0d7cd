//! The arguments of the attribute.

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{ParseStream, Parser};
use syn::{Error, Expr, Lit, Path, Result, Token, parse_quote};

/// The options, named as the methods of `IntoSubscriber` that set them.
const OPTIONS: [&str; 9] = [
    "name",
    "concurrency",
    "ordering",
    "retry",
    "timeout",
    "reply",
    "dead_letter",
    "dead_letter_limit",
    "drain_timeout",
];

/// The arguments of the attribute; what was wrong is left out.
pub(super) struct Args {
    /// `None` only beside an error.
    pub(super) topic: Option<Expr>,
    /// In the order in which they were written; no option twice.
    pub(super) options: Vec<(Ident, Expr)>,
    /// Where `ruststream` is to be found.
    pub(super) root: Path,
}

impl Args {
    /// Whether what the function returns is a reply.
    pub(super) fn replies(&self) -> bool {
        self.options.iter().any(|(option, _)| option == "reply")
    }

    /// Reads the arguments; what is wrong goes to `errors`.
    pub(super) fn parse(tokens: TokenStream, errors: &mut Vec<Error>) -> Self {
        let mut parsed = Parsed {
            topic: None,
            topic_tried: false,
            options: Vec::new(),
            root: None,
            errors,
        };
        let all = |input: ParseStream<'_>| {
            while !input.is_empty() {
                parsed.argument(input);
            }
            Ok(())
        };
        if let Err(error) = all.parse2(tokens) {
            parsed.errors.push(error);
        }
        if !parsed.topic_tried {
            parsed.errors.push(Error::new(
                proc_macro2::Span::call_site(),
                "the topic is missing: write `#[subscriber(\"topic\")]`, with the options after it",
            ));
        }
        let root = parsed.root.unwrap_or_else(|| parse_quote!(::ruststream));
        Self {
            topic: parsed.topic,
            options: parsed.options,
            root,
        }
    }
}

struct Parsed<'e> {
    topic: Option<Expr>,
    /// There is a topic, or what was meant to be one and has its error.
    topic_tried: bool,
    options: Vec<(Ident, Expr)>,
    root: Option<Path>,
    errors: &'e mut Vec<Error>,
}

impl Parsed<'_> {
    /// Reads one argument and the comma after it. A fault skips to the next comma, so that the rest is still checked.
    fn argument(&mut self, input: ParseStream<'_>) {
        let result = if input.peek(Ident::peek_any) && input.peek2(Token![=]) && !input.peek2(Token![==]) {
            self.named(input)
        } else {
            self.unnamed(input)
        };
        if let Err(error) = result {
            self.errors.push(error);
            skip_to_comma(input);
        }
        if input.is_empty() {
            return;
        }
        if let Err(error) = input.parse::<Token![,]>() {
            self.errors.push(error);
            skip_to_comma(input);
            let _ = input.parse::<Token![,]>();
        }
    }

    fn named(&mut self, input: ParseStream<'_>) -> Result<()> {
        let name = input.call(Ident::parse_any)?;
        input.parse::<Token![=]>()?;
        if name == "crate" {
            let path = input.call(Path::parse_mod_style)?;
            return match self.root.replace(path) {
                None => Ok(()),
                Some(_) => Err(twice(&name)),
            };
        }
        if name == "topic" {
            self.topic_tried = true;
            let text = "the topic stands first and without a name: `#[subscriber(\"topic\")]`";
            return Err(Error::new(name.span(), text));
        }
        if !OPTIONS.iter().any(|option| name == option) {
            return Err(Error::new(
                name.span(),
                format!("there is no option `{name}`; {}", accepted()),
            ));
        }
        if self.options.iter().any(|(option, _)| *option == name) {
            return Err(twice(&name));
        }
        let value = input.parse()?;
        self.options.push((name, value));
        Ok(())
    }

    fn unnamed(&mut self, input: ParseStream<'_>) -> Result<()> {
        let value: Expr = input.parse()?;
        if let Some(name) = option_without_value(&value) {
            return Err(Error::new_spanned(
                &value,
                format!("an option has a value: `{name} = ..`"),
            ));
        }
        self.topic_tried = true;
        if let Expr::Lit(literal) = &value
            && !matches!(literal.lit, Lit::Str(_))
        {
            return Err(Error::new_spanned(
                &value,
                "the topic is a string: `#[subscriber(\"topic\")]`",
            ));
        }
        if self.topic.is_some() {
            return Err(Error::new_spanned(
                &value,
                format!("one subscriber has one topic; {}", accepted()),
            ));
        }
        if let Some((first, _)) = self.options.first() {
            let text = format!("the topic stands first: move it before `{first}`");
            self.errors.push(Error::new_spanned(&value, text));
        }
        self.topic = Some(value);
        Ok(())
    }
}

/// `concurrency` and `concurrency(8)` instead of `concurrency = 8`.
fn option_without_value(value: &Expr) -> Option<&Ident> {
    let path = match value {
        Expr::Path(path) => path,
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => path,
            _ => return None,
        },
        _ => return None,
    };
    path.path
        .get_ident()
        .filter(|name| OPTIONS.iter().any(|option| *name == option))
}

fn twice(name: &Ident) -> Error {
    Error::new(name.span(), format!("`{name}` is given twice: remove one"))
}

fn accepted() -> String {
    let options = OPTIONS.map(|option| format!("`{option} = ..`")).join(", ");
    format!("after the topic there can be {options} and `crate = path`")
}

fn skip_to_comma(input: ParseStream<'_>) {
    while !input.is_empty() && !input.peek(Token![,]) {
        let _ = input.parse::<TokenTree>();
    }
}
