package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Linked is a module that a program links.
type Linked struct {
	Path, Version string
	License       string // SPDX identifier
	Text          string // of its licence and notices
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|authors)([.-].*)?$`)

// ReadLicense reads the licence of a module from the folder of its sources.
func (l *Linked) ReadLicense(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var texts []string
	for _, e := range entries {
		if e.IsDir() || !licenseFile.MatchString(e.Name()) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		text := strings.TrimSpace(string(b))
		texts = append(texts, text)
		if id := identify(text); id != "" && l.License == "" {
			l.License = id
		}
	}
	l.Text = strings.Join(texts, "\n\n")
	if l.License == "" {
		return fmt.Errorf("%s %s: no licence that is known, in %s", l.Path, l.Version, dir)
	}
	return nil
}

// identify returns the licence that a text is. A licence that is not here may be one that programs cannot be given
// away with: decide, and add it.
func identify(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(words ...string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}
	switch {
	case has("GNU") && !has("Apache License"):
		return ""
	case has("Apache License", "Version 2.0"):
		return "Apache-2.0"
	case has("Redistribution and use in source and binary forms", "Neither the name"):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission is hereby granted, free of charge", `THE SOFTWARE IS PROVIDED "AS IS"`):
		return "MIT"
	}
	return ""
}

// Notices returns the text that comes with the programs: the licences of all modules that are linked.
func Notices(linked []Linked) string {
	var b strings.Builder
	b.WriteString("The programs of pureverbs (Apache-2.0, see LICENSE) contain these modules and their licences.\n")
	for _, l := range linked {
		fmt.Fprintf(&b, "\n%s\n%s %s (%s)\n%[1]s\n\n%[5]s\n", strings.Repeat("=", 80), l.Path, l.Version, l.License,
			l.Text)
	}
	return b.String()
}
