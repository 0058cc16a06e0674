// Package printable makes text from outside safe for a terminal: names of devices and network
// interfaces come from sysfs, versions and errors from peers. It escapes what a terminal might obey
// or display as something else: control characters (including C1 and DEL), overrides of the writing
// direction, and bytes that are not UTF-8.
package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Name returns s, or s as a quoted Go string if something in it must be escaped.
func Name(s string) string {
	if Message(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// Message returns s with escapes such as \u001b for what must be escaped.
func Message(s string) string {
	return escape(s, func(b *strings.Builder, bad string) {
		q := strconv.Quote(bad)
		b.WriteString(q[1 : len(q)-1])
	}, "")
}

// JSON returns the JSON text b, with what must be escaped in its strings written as \uXXXX. The
// values do not change.
func JSON(b []byte) []byte {
	return []byte(escape(string(bytes.ToValidUTF8(b, []byte("\ufffd"))), func(b *strings.Builder, bad string) {
		r, _ := utf8.DecodeRuneInString(bad)
		if hi, lo := utf16.EncodeRune(r); hi != utf8.RuneError {
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
			return
		}
		fmt.Fprintf(b, `\u%04x`, r)
	}, "\n\t\r")) // between values; inside strings the encoder has escaped them
}

// WriteJSON writes v, a value on each line, as [JSON] returns it. Nothing in it is escaped for HTML.
func WriteJSON(w io.Writer, v any, indent string) error {
	var plain, lines bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	if err := json.Indent(&lines, plain.Bytes(), "", indent); err != nil {
		return err
	}
	_, err := w.Write(JSON(lines.Bytes()))
	return err
}

func escape(s string, write func(b *strings.Builder, bad string), keep string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) && !strings.ContainsRune(keep, r) {
			write(&b, s[i:i+n])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
