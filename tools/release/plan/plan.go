// Package plan says what a release consists of, and when there can be none. It needs no other module, so that its
// tests are short.
package plan

import (
	"errors"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"strings"
)

// Module is the module that is released.
const Module = "github.com/pureverbs/pureverbs"

// Architectures are those of the programs.
var Architectures = []string{"amd64", "arm64"}

// Build is a program as it is built.
type Build struct {
	Program string // its name, and the last part of its path
	Package string // in the module
	Kind    string // of rdmaperf: native or dlopen
	Tags    string
	Summary string // for whatis
	Use     string // which to take
}

// The kinds of rdmaperf.
const (
	Native = "native"
	Dlopen = "dlopen"
)

// Builds are the programs of a release.
var Builds = []Build{
	{"rdmaperf", "cmd/perf/rdmaperf", Dlopen, "", "bandwidth and latency of RDMA between hosts",
		"any adapter, on a system with glibc; the adapter's library is used if it is installed"},
	{"rdmaperf", "cmd/perf/rdmaperf", Native, "pureverbs_native", "bandwidth and latency of RDMA between hosts",
		"mlx5 adapters, without any library: one static file, also for Alpine and empty images"},
	{"show_gids", "cmd/show_gids", "", "", "list the GIDs of RDMA devices, or choose one",
		"any device: one static file"},
	{"emu", "emu", "", "", "run programs on emulated RDMA adapters",
		"one static file; the programs that it runs need rdma-core's libraries"},
}

// Installed are the builds that packages for distributions have, one of each program.
func Installed() []Build { return kind(Dlopen) }

// Static are the builds of the image, one of each program, which need no file but their own.
func Static() []Build { return kind(Native) }

func kind(k string) (list []Build) {
	for _, b := range Builds {
		if b.Kind == "" || b.Kind == k {
			list = append(list, b)
		}
	}
	return list
}

// Name returns the name of a build's folder and, with .tar.gz behind it, of its archive.
func (b Build) Name(version, arch string) string {
	name := fmt.Sprintf("%s-%s-linux-%s", b.Program, version, arch)
	if b.Kind != "" {
		name += "-" + b.Kind
	}
	return name
}

// Flags are go build's, without the output and the package. They are those of make build, except that the version is
// part of the program.
func (b Build) Flags() []string {
	f := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-gcflags=all=-dwarf=false"}
	if b.Tags != "" {
		f = append(f, "-tags="+b.Tags)
	}
	return f
}

// Names of the other files.
func PackName(version, arch string) string {
	return "pureverbs-hw-" + version + "-linux-" + arch + ".tar.gz"
}
func ImageName(version string) string { return "rdmaperf-image-" + version + ".tar" }
func BOMName(version string) string   { return "pureverbs-" + version + ".cdx.json" }
func PackageName(version, arch, format string) string {
	if format == "rpm" {
		return fmt.Sprintf("pureverbs-%s-1.%s.rpm", PackageVersion(version), rpmArch[arch])
	}
	return fmt.Sprintf("pureverbs_%s-1_%s.deb", PackageVersion(version), arch)
}

// PackageVersion is the version in a package and in its name. It sorts v0.1.0-rc.1 before v0.1.0, and has no other "-",
// which an rpm cannot have.
func PackageVersion(version string) string {
	return strings.ReplaceAll(strings.TrimPrefix(version, "v"), "-", "~")
}

var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}

// Files returns all files of a release but the sums.
func Files(version string) []string {
	list := []string{ImageName(version), BOMName(version), "NOTES.md"}
	for _, arch := range Architectures {
		for _, b := range Builds {
			list = append(list, b.Name(version, arch)+".tar.gz")
		}
		list = append(list, PackName(version, arch), PackageName(version, arch, "deb"), PackageName(version, arch,
			"rpm"))
	}
	return list
}

var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// A Source is a checkout to release.
type Source struct {
	Version   string
	Commit    string
	Changed   string // what git status lists
	Tagged    string // the commit that has Version as a tag; empty if none has
	Changelog string
	License   string
}

// Read reads a checkout.
func Read(dir, version string, file func(string) ([]byte, error)) (Source, error) {
	s := Source{Version: version}
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).Output()
		if err != nil {
			return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(out)), nil
	}
	var err error
	if s.Commit, err = git("rev-parse", "HEAD"); err != nil {
		return s, err
	}
	if s.Changed, err = git("status", "--porcelain"); err != nil {
		return s, err
	}
	if tags, _ := git("tag", "--list", version); tags != "" {
		if s.Tagged, err = git("rev-parse", version+"^{commit}"); err != nil {
			return s, err
		}
	}
	for name, text := range map[string]*string{"CHANGELOG.md": &s.Changelog, "LICENSE": &s.License} {
		b, err := file(path.Join(dir, name))
		if err != nil {
			return s, err
		}
		*text = string(b)
	}
	return s, nil
}

// Refuse returns all reasons for which there can be no release.
func (s Source) Refuse() error {
	var errs []error
	if !semantic.MatchString(s.Version) {
		errs = append(errs, fmt.Errorf("version %q: want one such as v0.1.0", s.Version))
	} else if _, ok := Section(s.Changelog, s.Version); !ok {
		errs = append(errs, fmt.Errorf("CHANGELOG.md has no section \"## %s\", or nothing in it",
			strings.TrimPrefix(s.Version, "v")))
	}
	if s.Changed != "" {
		errs = append(errs, fmt.Errorf("the checkout differs from its commit:\n%s", s.Changed))
	}
	if s.Tagged != "" && s.Tagged != s.Commit {
		errs = append(errs, fmt.Errorf("tag %s is at %s, this is %s", s.Version, s.Tagged, s.Commit))
	}
	if strings.Contains(s.License, "[name of copyright owner]") || !strings.Contains(s.License, "Copyright 2") {
		errs = append(errs, errors.New("LICENSE names no copyright holder"))
	}
	return errors.Join(errs...)
}

// Section returns what a changelog says of a version.
func Section(changelog, version string) (string, bool) {
	title := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(strings.TrimPrefix(version, "v")) + `([ \t].*)?$`)
	at := title.FindStringIndex(changelog)
	if at == nil {
		return "", false
	}
	text, _, _ := strings.Cut(changelog[at[1]:], "\n## ")
	text = strings.TrimSpace(text)
	return text, text != ""
}

// inside matches the target of a link into the repository.
var inside = regexp.MustCompile(`\]\(([^):#]+(?:#[^)]*)?)\)`)

// Notes are the notes of a release: its changes, and which file to take.
func Notes(s Source) string {
	var b strings.Builder
	text, _ := Section(s.Changelog, s.Version)
	text = inside.ReplaceAllString(text, "](https://"+Module+"/blob/"+s.Version+"/$1)")
	fmt.Fprintf(&b, "%s\n\n## Files\n\n| file | for |\n|---|---|\n", text)
	for _, build := range Builds {
		fmt.Fprintf(&b, "| `%s.tar.gz` | %s |\n", build.Name(s.Version, "ARCH"), build.Use)
	}
	fmt.Fprintf(&b, "| `%s` | Debian 12 and later, Ubuntu: all three programs, rdmaperf with dlopen |\n",
		strings.ReplaceAll(PackageName(s.Version, "amd64", "deb"), "amd64", "ARCH"))
	fmt.Fprintf(&b, "| `%s` | RHEL, Fedora, SUSE: the same |\n",
		strings.ReplaceAll(PackageName(s.Version, "amd64", "rpm"), "x86_64", "ARCH"))
	fmt.Fprintf(&b, "| `%s` | OCI image with the static programs alone: `skopeo copy`, `podman load` |\n",
		ImageName(s.Version))
	fmt.Fprintf(&b, "| `%s` | [a first hour with an adapter](https://%s/blob/%s/docs/hardware.md), without Go |\n",
		PackName(s.Version, "ARCH"), Module, s.Version)
	fmt.Fprintf(&b, "| `%s` | SBOM, CycloneDX |\n\nARCH is amd64 or arm64 (x86_64 or aarch64 in an rpm). "+
		"`sha256sum -c SHA256SUMS` checks the files. Commit %s.\n", BOMName(s.Version), s.Commit)
	return b.String()
}
