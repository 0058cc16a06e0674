package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/pureverbs/pureverbs/tools/release/plan"
)

// bom writes what the programs are made of: each program, and the modules that its build information lists.
func (j *job) bom() error {
	licence := func(id string) *cdx.Licenses { return &cdx.Licenses{{License: &cdx.License{ID: id}}} }
	purl := func(path, version string) string { return "pkg:golang/" + path + "@" + version }
	std := "pkg:golang/std@" + strings.TrimPrefix(j.linked[0].Version, "go")
	whole := purl(plan.Module, j.Version)
	components := []cdx.Component{{BOMRef: std, Type: cdx.ComponentTypeLibrary, Name: "std",
		Version: strings.TrimPrefix(j.linked[0].Version, "go"), PackageURL: std,
		Licenses: licence(j.linked[0].License)}}
	for _, l := range j.linked[1:] {
		ref := purl(l.Path, l.Version)
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeLibrary, Name: l.Path,
			Version: l.Version, PackageURL: ref, Licenses: licence(l.License)})
	}
	var programs []string
	var depends []cdx.Dependency
	for _, b := range j.binaries {
		text, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		ref := b.Name(j.Version, b.arch)
		programs = append(programs, ref)
		components = append(components, cdx.Component{BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: ref,
			Version: j.Version, Description: b.Summary, Licenses: licence("Apache-2.0"),
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(text))}}})
		on := []string{std}
		for _, m := range b.modules {
			on = append(on, "pkg:golang/"+m)
		}
		depends = append(depends, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	depends = slices.Insert(depends, 0, cdx.Dependency{Ref: whole, Dependencies: &programs})
	d := cdx.NewBOM()
	d.Metadata = &cdx.Metadata{
		Timestamp: j.time.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: whole, Type: cdx.ComponentTypeApplication, Name: "pureverbs",
			Version:    j.Version,
			PackageURL: whole, Licenses: licence("Apache-2.0"), Copyright: "2026 " + holder},
	}
	d.Components, d.Dependencies = &components, &depends
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).Encode(d); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dist, plan.BOMName(j.Version)), b.Bytes(), 0o644)
}
