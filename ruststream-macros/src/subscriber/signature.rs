//! The function as the user wrote it, and what its arguments mean.

use proc_macro2::{Ident, TokenTree};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Attribute, Error, FnArg, GenericArgument, GenericParam, Lifetime, PathArguments, ReturnType, Signature,
    Type, TypeImplTrait, TypePath, TypeReference, Visibility, parse_quote,
};

/// The annotated function. Its block stays unparsed: it is emitted as it stands, and rustc reports what is wrong in it.
pub(super) struct Function {
    pub(super) attrs: Vec<Attribute>,
    pub(super) vis: Visibility,
    pub(super) sig: Signature,
    pub(super) block: TokenTree,
}

impl Parse for Function {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let vis = input.parse()?;
        let mut sig: Signature = input.parse()?;
        for arg in &mut sig.inputs {
            if let FnArg::Typed(arg) = arg {
                show_lifetime(&mut arg.ty);
            }
        }
        let block = input.parse()?;
        Ok(Self {
            attrs,
            vis,
            sig,
            block,
        })
    }
}

/// What the arguments and the return type mean. Types have `'_` for each lifetime that the function declares: they are
/// written where lifetimes are inferred.
pub(super) struct Arguments {
    pub(super) payload: Payload,
    pub(super) extractors: Vec<Type>,
    /// `None` when the type cannot be named (`-> impl IntoOutcome`).
    pub(super) output: Option<Type>,
}

/// How the payload becomes the first argument.
pub(super) struct Payload {
    pub(super) decode: Decode,
    /// The value is decoded to be owned by the call, and lent to the function: `&Order`, `Option<&Order>`.
    pub(super) lent: bool,
}

/// The function in `ruststream::__private` that decodes, with the type that it decodes into.
pub(super) enum Decode {
    Json(Type),
    JsonOrTombstone(Type),
    Bytes,
    BytesOrTombstone,
}

impl Function {
    /// What the arguments mean; `None` if something is wrong, which then is in `errors`.
    pub(super) fn arguments(&self, errors: &mut Vec<Error>) -> Option<Arguments> {
        let faults = errors.len();
        self.check_qualifiers(errors);
        self.check_generics(errors);
        let types = self.argument_types(errors);
        let mut types = types.into_iter();
        let payload = types.next().and_then(|ty| match Payload::of(ty) {
            Ok(payload) => Some(payload),
            Err(error) => {
                errors.push(error);
                None
            }
        });
        if errors.len() > faults {
            return None;
        }
        Some(Arguments {
            payload: payload?,
            extractors: types.collect(),
            output: self.output(),
        })
    }

    fn check_qualifiers(&self, errors: &mut Vec<Error>) {
        let Signature {
            constness,
            asyncness,
            unsafety,
            abi,
            fn_token,
            ident,
            variadic,
            ..
        } = &self.sig;
        if asyncness.is_none() {
            let text = format!("a subscriber is async: write `async fn {ident}`");
            errors.push(Error::new_spanned(fn_token, text));
        }
        let mut refuse = |token: Option<&dyn ToTokens>, text: &str| {
            if let Some(token) = token {
                errors.push(Error::new_spanned(token, text));
            }
        };
        refuse(
            constness.as_ref().map(|token| token as _),
            "a subscriber cannot be `const`",
        );
        refuse(
            unsafety.as_ref().map(|token| token as _),
            "a subscriber cannot be `unsafe`: the runtime calls it",
        );
        refuse(
            abi.as_ref().map(|token| token as _),
            "a subscriber cannot be `extern`: the runtime calls it",
        );
        refuse(
            variadic.as_ref().map(|token| token as _),
            "a subscriber has a fixed number of arguments",
        );
    }

    fn check_generics(&self, errors: &mut Vec<Error>) {
        let generics = &self.sig.generics;
        for param in generics
            .params
            .iter()
            .filter(|param| !matches!(param, GenericParam::Lifetime(_)))
        {
            let text =
                "a subscriber is one function: it cannot have type or const parameters, only lifetimes";
            errors.push(Error::new_spanned(param, text));
        }
        if let Some(clause) = &generics.where_clause {
            errors.push(Error::new_spanned(
                clause,
                "a subscriber cannot have a `where` clause",
            ));
        }
    }

    fn argument_types(&self, errors: &mut Vec<Error>) -> Vec<Type> {
        let inputs = &self.sig.inputs;
        if inputs.is_empty() {
            let text = format!(
                "a subscriber takes the payload as its first argument: `{0}(order: Order)`, or `{0}(_: &[u8])` to ignore it",
                self.sig.ident
            );
            errors.push(Error::new(self.sig.paren_token.span.join(), text));
        }
        let mut types = Vec::new();
        for input in inputs {
            match input {
                FnArg::Receiver(receiver) => {
                    let text = "a subscriber is a free function, without `self`: take shared state as `State<'_, T>`";
                    errors.push(Error::new_spanned(receiver, text));
                }
                FnArg::Typed(arg) => types.extend(self.named_type(&arg.ty, errors)),
            }
        }
        types
    }

    /// The type as it can be written in the handler.
    fn named_type(&self, ty: &Type, errors: &mut Vec<Error>) -> Option<Type> {
        let (ty, impls) = self.outside(ty);
        for found in &impls {
            let text =
                "the runtime must know the type of an argument: write the type instead of `impl Trait`";
            errors.push(Error::new_spanned(found, text));
        }
        impls.is_empty().then_some(ty)
    }

    fn output(&self) -> Option<Type> {
        match &self.sig.output {
            ReturnType::Default => Some(parse_quote!(())),
            ReturnType::Type(_, ty) => {
                let (ty, impls) = self.outside(ty);
                impls.is_empty().then_some(ty)
            }
        }
    }

    /// `ty` without the lifetimes that only the function knows, and the `impl Trait`s in it.
    fn outside(&self, ty: &Type) -> (Type, Vec<TypeImplTrait>) {
        let declared = self
            .sig
            .generics
            .lifetimes()
            .map(|param| param.lifetime.ident.clone())
            .collect();
        let mut outside = Outside {
            declared,
            impls: Vec::new(),
        };
        let mut ty = ty.clone();
        outside.visit_type_mut(&mut ty);
        (ty, outside.impls)
    }
}

struct Outside {
    declared: Vec<Ident>,
    impls: Vec<TypeImplTrait>,
}

impl VisitMut for Outside {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.declared.contains(&lifetime.ident) {
            lifetime.ident = Ident::new("_", lifetime.ident.span());
        }
    }

    fn visit_type_impl_trait_mut(&mut self, ty: &mut TypeImplTrait) {
        self.impls.push(ty.clone());
        visit_mut::visit_type_impl_trait_mut(self, ty);
    }
}

impl Payload {
    fn of(ty: Type) -> syn::Result<Self> {
        let ty = bare(ty);
        if let Some(inner) = optional(&ty) {
            return Ok(match bare(inner.clone()) {
                Type::Reference(reference) => match Lent::of(reference)? {
                    Lent::Bytes => Self {
                        decode: Decode::BytesOrTombstone,
                        lent: false,
                    },
                    Lent::Str(ty) => Self {
                        decode: Decode::JsonOrTombstone(ty),
                        lent: false,
                    },
                    Lent::Value(ty) => Self {
                        decode: Decode::JsonOrTombstone(ty),
                        lent: true,
                    },
                },
                ty => Self {
                    decode: Decode::JsonOrTombstone(ty),
                    lent: false,
                },
            });
        }
        Ok(match ty {
            Type::Reference(reference) => match Lent::of(reference)? {
                Lent::Bytes => Self {
                    decode: Decode::Bytes,
                    lent: false,
                },
                Lent::Str(ty) => Self {
                    decode: Decode::Json(ty),
                    lent: false,
                },
                Lent::Value(ty) => Self {
                    decode: Decode::Json(ty),
                    lent: true,
                },
            },
            ty => Self {
                decode: Decode::Json(ty),
                lent: false,
            },
        })
    }
}

/// What stands behind a `&`.
enum Lent {
    /// `&[u8]`: the payload itself.
    Bytes,
    /// `&str`: a JSON string, borrowed from the payload.
    Str(Type),
    /// Any other `&T`: a value that is decoded and lent.
    Value(Type),
}

impl Lent {
    fn of(reference: TypeReference) -> syn::Result<Self> {
        if let Some(mutability) = &reference.mutability {
            let text = "a payload is lent without `mut`: take it by value (`mut order: Order`) to change it";
            return Err(Error::new_spanned(mutability, text));
        }
        match bare((*reference.elem).clone()) {
            Type::Slice(slice) if is_path(&slice.elem, "u8") => Ok(Self::Bytes),
            Type::Slice(_) => Err(Error::new_spanned(
                reference,
                "only `&[u8]`, the raw bytes, is a slice: take a JSON array as `Vec<_>`",
            )),
            elem if is_path(&elem, "str") => Ok(Self::Str(Type::Reference(reference))),
            elem => Ok(Self::Value(elem)),
        }
    }
}

/// The type without the invisible groups and parentheses that a `macro_rules!` fragment brings.
fn bare(ty: Type) -> Type {
    match ty {
        Type::Group(group) => bare(*group.elem),
        Type::Paren(paren) => bare(*paren.elem),
        ty => ty,
    }
}

fn is_path(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(TypePath { qself: None, path }) if path.is_ident(name))
}

/// The `T` of `Option<T>`, `std::option::Option<T>` and `core::option::Option<T>`.
fn optional(ty: &Type) -> Option<&Type> {
    let Type::Path(TypePath { qself: None, path }) = ty else {
        return None;
    };
    let names: Vec<_> = path
        .segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect();
    if !matches!(
        &*names.iter().map(String::as_str).collect::<Vec<_>>(),
        ["Option"] | ["std" | "core", "option", "Option"]
    ) {
        return None;
    }
    let PathArguments::AngleBracketed(arguments) = &path.segments.last()?.arguments else {
        return None;
    };
    let mut arguments = arguments.args.iter();
    match (arguments.next(), arguments.next()) {
        (Some(GenericArgument::Type(ty)), None) => Some(ty),
        _ => None,
    }
}

/// `State<T>` becomes `State<'_, T>`: an async fn may not hide a lifetime, and nobody wants to think about this one.
/// Any longer path than `ruststream::State` is left alone, so that a `State` of the user's own can be named.
fn show_lifetime(ty: &mut Type) {
    let Type::Path(TypePath { qself: None, path }) = ty else {
        return;
    };
    let known = match path.segments.iter().collect::<Vec<_>>()[..] {
        [state] => state.ident == "State",
        [root, state] => root.ident == "ruststream" && state.ident == "State",
        _ => false,
    };
    let Some(last) = path.segments.last_mut().filter(|_| known) else {
        return;
    };
    let PathArguments::AngleBracketed(arguments) = &mut last.arguments else {
        return;
    };
    if arguments.args.len() == 1 && matches!(arguments.args.first(), Some(GenericArgument::Type(_))) {
        let lifetime = Lifetime::new("'_", last.ident.span());
        arguments.args.insert(0, GenericArgument::Lifetime(lifetime));
    }
}
