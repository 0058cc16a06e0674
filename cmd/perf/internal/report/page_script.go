package report

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
)

//go:embed page.js
var script string

// policy lets a page do nothing but what it brings along: its style, its pictures, its one script.
func policy() string {
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func scriptText() template.JS { return template.JS(script) }
