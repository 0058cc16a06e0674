package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/pureverbs/pureverbs/tools/release/plan"
)

// file is a file of an archive.
type file struct {
	name string
	text []byte
	mode int64
}

// notices collects the licences of what the programs link.
func (j *job) notices() error {
	found := map[string]bool{}
	for i := range j.binaries {
		b := &j.binaries[i]
		info, err := buildinfo.ReadFile(b.path)
		if err != nil {
			return err
		}
		if info.Main.Version != j.Version {
			return fmt.Errorf("%s has version %s, want %s", b.path, info.Main.Version, j.Version)
		}
		for _, d := range info.Deps {
			if d.Replace != nil {
				return fmt.Errorf("%s links a replacement of %s", b.path, d.Path)
			}
			b.modules = append(b.modules, d.Path+"@"+d.Version)
			found[d.Path+"@"+d.Version] = true
		}
	}
	std := plan.Linked{Path: "Go's standard library and runtime", Version: runtime.Version()}
	goroot, err := j.output(j.src, "go", "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	root, version, _ := strings.Cut(strings.TrimSpace(goroot), "\n")
	std.Version = version
	if err := std.ReadLicense(root); err != nil {
		if err = std.ReadLicense(filepath.Dir(root)); err != nil {
			return err
		}
	}
	j.linked = []plan.Linked{std}
	for _, m := range slices.Sorted(maps.Keys(found)) {
		out, err := j.output(j.src, "go", "mod", "download", "-json", m)
		if err != nil {
			return err
		}
		var at struct{ Path, Version, Dir string }
		if err := json.Unmarshal([]byte(out), &at); err != nil {
			return err
		}
		l := plan.Linked{Path: at.Path, Version: at.Version}
		if err := l.ReadLicense(at.Dir); err != nil {
			return err
		}
		j.linked = append(j.linked, l)
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(j.src, name))
		if err != nil {
			return err
		}
		j.documents = append(j.documents, file{name, text, 0o644})
	}
	j.documents = append(j.documents, file{"THIRD-PARTY-NOTICES", []byte(plan.Notices(j.linked)), 0o644})
	return nil
}

// native returns the program as this machine runs it.
func (j *job) native(program string) (string, error) {
	for _, b := range j.binaries {
		if b.Program == program && b.arch == runtime.GOARCH && (b.Kind == "" || b.Kind == plan.Native) {
			return b.path, nil
		}
	}
	return "", fmt.Errorf("no %s for %s", program, runtime.GOARCH)
}

// manuals returns the manual pages and completions of a program: man/…, completions/SHELL/….
func (j *job) manuals(b plan.Build) ([]file, error) {
	if list, done := j.pages[b.Program]; done {
		return list, nil
	}
	list, err := j.write(b)
	j.pages[b.Program] = list
	return list, err
}

// write has a program print its manual pages and completions, or makes them of its help.
func (j *job) write(b plan.Build) ([]file, error) {
	program, err := j.native(b.Program)
	if err != nil {
		return nil, err
	}
	var list []file
	add := func(name, text string) { list = append(list, file{name, []byte(text), 0o644}) }
	if b.Program != "rdmaperf" {
		help, err := j.output(j.work, program, "--help")
		if err != nil {
			return nil, err
		}
		h := plan.ParseHelp(help)
		if len(h.Flags) < 5 {
			return nil, fmt.Errorf("%s --help lists %d flags", b.Program, len(h.Flags))
		}
		add("man/"+b.Program+".1", h.Man(b, j.Version))
		for name, text := range h.Completions(b.Program) {
			add("completions/"+name, text)
		}
		return list, nil
	}
	pages := [][]string{nil}
	commands, err := j.output(j.work, program, "__completeNoDesc", "man", "")
	if err != nil {
		return nil, err
	}
	for c := range strings.FieldsSeq(commands) {
		if !strings.HasPrefix(c, ":") {
			pages = append(pages, []string{c})
		}
	}
	if len(pages) < 10 {
		return nil, fmt.Errorf("rdmaperf has %d manual pages: %s", len(pages), commands)
	}
	for _, words := range pages {
		text, err := j.output(j.work, program, append([]string{"man"}, words...)...)
		if err != nil {
			return nil, err
		}
		add("man/"+strings.Join(append([]string{b.Program}, words...), "-")+".1", text)
	}
	for shell, name := range map[string]string{"bash": "rdmaperf", "zsh": "_rdmaperf", "fish": "rdmaperf.fish"} {
		text, err := j.output(j.work, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		add("completions/"+shell+"/"+name, text)
	}
	return list, nil
}

// archives writes an archive for each program, kind and architecture.
func (j *job) archives() error {
	for _, b := range j.binaries {
		text, err := os.ReadFile(b.path)
		if err != nil {
			return err
		}
		manuals, err := j.manuals(b.Build)
		if err != nil {
			return err
		}
		name := b.Name(j.Version, b.arch)
		var list []file
		for _, f := range slices.Concat([]file{{b.Program, text, 0o755}}, j.documents, manuals) {
			list = append(list, file{name + "/" + f.name, f.text, f.mode})
		}
		packed, err := pack(list, j.time)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(j.dist, name+".tar.gz"), packed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack returns a compressed archive.
func pack(list []file, when time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if err := writeTar(z, list, when); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// writeTar writes files of root, in the order of their names.
func writeTar(w io.Writer, list []file, when time.Time) error {
	slices.SortFunc(list, func(a, b file) int { return strings.Compare(a.name, b.name) })
	t := tar.NewWriter(w)
	for _, f := range list {
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.name, Size: int64(len(f.text)), Mode: f.mode,
			ModTime: when, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		if _, err := t.Write(f.text); err != nil {
			return err
		}
	}
	return t.Close()
}
