//! Tokens of the user, read from the left.

use std::iter::Peekable;

use proc_macro::token_stream::IntoIter;
use proc_macro::{Delimiter, Group, Ident, Literal, Span, TokenStream, TokenTree};

use crate::failure::Failure;

/// `#[name arguments]`
pub struct Attribute {
    pub name: String,
    pub arguments: Tokens,
    pub tokens: [TokenTree; 2],
    pub span: Span,
}

impl Attribute {
    pub fn unknown(&self, help: &str) -> Failure {
        Failure::new(
            format!("`#[{}]` has no meaning here: {help}", self.name),
            self.span,
        )
    }
}

/// Tokens, read from the left.
pub struct Tokens {
    tokens: Peekable<IntoIter>,
    /// Where they end.
    end: Span,
}

impl Tokens {
    pub fn new(tokens: TokenStream, end: Span) -> Tokens {
        Tokens {
            tokens: tokens.into_iter().peekable(),
            end,
        }
    }

    pub fn next(&mut self) -> Option<TokenTree> {
        self.tokens.next()
    }

    pub fn peek(&mut self) -> Option<&TokenTree> {
        self.tokens.peek()
    }

    pub fn expected(&mut self, what: &str) -> Failure {
        match self.tokens.peek() {
            Some(found) => {
                let token = match found {
                    TokenTree::Group(group) => match group.delimiter() {
                        Delimiter::Parenthesis => "(".to_owned(),
                        Delimiter::Brace => "{".to_owned(),
                        Delimiter::Bracket => "[".to_owned(),
                        Delimiter::None => group.to_string(),
                    },
                    other => other.to_string(),
                };
                Failure::new(format!("expected {what}, found `{token}`"), found.span())
            }
            None => Failure::new(format!("expected {what}"), self.end),
        }
    }

    pub fn take_word(&mut self, word: &str) -> Option<Ident> {
        let is_word = |token: &TokenTree| matches!(token, TokenTree::Ident(ident) if ident.to_string() == word);
        match self.tokens.next_if(is_word) {
            Some(TokenTree::Ident(ident)) => Some(ident),
            _ => None,
        }
    }

    pub fn keyword(&mut self, word: &str) -> Result<Ident, Failure> {
        self.take_word(word)
            .ok_or_else(|| self.expected(&format!("`{word}`")))
    }

    pub fn ident(&mut self, what: &str) -> Result<Ident, Failure> {
        match self
            .tokens
            .next_if(|token| matches!(token, TokenTree::Ident(_)))
        {
            Some(TokenTree::Ident(ident)) => Ok(ident),
            _ => Err(self.expected(what)),
        }
    }

    pub fn literal(&mut self, what: &str) -> Result<Literal, Failure> {
        match self
            .tokens
            .next_if(|token| matches!(token, TokenTree::Literal(_)))
        {
            Some(TokenTree::Literal(literal)) => Ok(literal),
            _ => Err(self.expected(&format!("{what} as a string literal"))),
        }
    }

    pub fn take_punct(&mut self, wanted: char) -> bool {
        self.tokens
            .next_if(|token| is_punct(Some(token), wanted))
            .is_some()
    }

    pub fn punct(&mut self, wanted: char) -> Result<(), Failure> {
        if self.take_punct(wanted) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{wanted}`")))
        }
    }

    pub fn group(&mut self, delimiter: Delimiter, what: &str) -> Result<Group, Failure> {
        let is_group = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == delimiter);
        match self.tokens.next_if(is_group) {
            Some(TokenTree::Group(group)) => Ok(group),
            _ => Err(self.expected(what)),
        }
    }

    pub fn attributes(&mut self) -> Result<Vec<Attribute>, Failure> {
        let mut all = Vec::new();
        while let Some(hash) = self.tokens.next_if(|token| is_punct(Some(token), '#')) {
            let group = self.group(Delimiter::Bracket, "an attribute")?;
            let mut arguments = Tokens::new(group.stream(), group.span_close());
            all.push(Attribute {
                name: arguments.ident("an attribute")?.to_string(),
                arguments,
                span: group.span(),
                tokens: [hash, group.into()],
            });
        }
        Ok(all)
    }

    /// `pub`, `pub(crate)` …, or nothing.
    pub fn visibility(&mut self) -> TokenStream {
        let Some(word) = self.take_word("pub") else {
            return TokenStream::new();
        };
        let within = self.group(Delimiter::Parenthesis, "").ok();
        let within = within.map(TokenTree::from);
        [word.into()].into_iter().chain(within).collect()
    }

    /// The tokens before a comma that is not within `<>`, and without it.
    pub fn until_comma(&mut self) -> Vec<TokenTree> {
        let (mut taken, mut depth) = (Vec::new(), 0_usize);
        for token in self.tokens.by_ref() {
            if let TokenTree::Punct(punct) = &token {
                match punct.as_char() {
                    '<' => depth += 1,
                    '>' => depth = depth.saturating_sub(1),
                    ',' if depth == 0 => break,
                    _ => {}
                }
            }
            taken.push(token);
        }
        taken
    }
}

pub fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == wanted)
}

/// A type as it is mostly written: blanks between words and after commas alone.
pub fn text_of(ty: &TokenStream) -> String {
    let mut text = String::new();
    for token in ty.clone() {
        let token = token.to_string();
        let is_word = |end: Option<char>| end.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let after = text.ends_with([',', ';']) || is_word(text.chars().next_back());
        if after && (is_word(token.chars().next()) || token.starts_with(['[', '&', '*'])) {
            text.push(' ');
        }
        text += &token;
    }
    text
}
