package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// escape writes what a terminal might obey, or show as something else, as \uXXXX: names come from outside. In JSON that
// means the same. The characters in keep stay.
func escape(s, keep string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) || strings.ContainsRune(keep, r) {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}
