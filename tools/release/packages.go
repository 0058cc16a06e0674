package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"

	"github.com/pureverbs/pureverbs/tools/release/plan"
)

const holder = "The pureverbs Authors"

// Folders of completions, which zsh has elsewhere in each distribution.
var completions = map[string]map[string]string{
	"deb": {"bash": "bash-completion/completions", "zsh": "zsh/vendor-completions",
		"fish": "fish/vendor_completions.d"},
	"rpm": {"bash": "bash-completion/completions", "zsh": "zsh/site-functions", "fish": "fish/vendor_completions.d"},
}

// packages writes the packages for distributions.
func (j *job) packages() error {
	for _, arch := range plan.Architectures {
		for _, format := range []string{"deb", "rpm"} {
			list, err := j.installed(arch, format)
			if err != nil {
				return err
			}
			if err := j.pkg(arch, format, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// installed returns the files of a package, by their paths.
func (j *job) installed(arch, format string) ([]file, error) {
	const share, doc = "/usr/share/", "/usr/share/doc/pureverbs/"
	var list []file
	for _, b := range plan.Installed() {
		i := slices.IndexFunc(j.binaries, func(x binary) bool { return x.Build == b && x.arch == arch })
		text, err := os.ReadFile(j.binaries[i].path)
		if err != nil {
			return nil, err
		}
		list = append(list, file{"/usr/bin/" + b.Program, text, 0o755})
		manuals, err := j.manuals(b)
		if err != nil {
			return nil, err
		}
		for _, m := range manuals {
			kind, name, _ := strings.Cut(m.name, "/")
			if kind == "man" {
				list = append(list, file{share + "man/man1/" + name + ".gz", squeeze(m.text), 0o644})
				continue
			}
			shell, name, _ := strings.Cut(name, "/")
			list = append(list, file{share + completions[format][shell] + "/" + name, m.text, 0o644})
		}
	}
	changelog, err := os.ReadFile(filepath.Join(j.src, "CHANGELOG.md"))
	if err != nil {
		return nil, err
	}
	var notices []byte
	for _, d := range j.documents {
		switch d.name {
		case "LICENSE":
			if format == "rpm" {
				list = append(list, file{share + "licenses/pureverbs/LICENSE", d.text, 0o644})
			}
		default:
			notices = append(append(notices, d.text...), '\n')
		}
	}
	if format == "rpm" {
		return append(list, file{doc + "CHANGELOG.md", changelog, 0o644},
			file{share + "licenses/pureverbs/THIRD-PARTY-NOTICES", notices, 0o644}), nil
	}
	copyright := fmt.Sprintf("Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"+
		"Upstream-Name: pureverbs\nSource: https://%s\nComment: THIRD-PARTY-NOTICES.gz has the licences of the "+
		"modules in the\n"+
		" programs.\n\nFiles: *\nCopyright: 2026 %s\nLicense: Apache-2.0\n"+
		" On Debian systems the full text is in /usr/share/common-licenses/Apache-2.0.\n", plan.Module, holder)
	history := fmt.Sprintf("pureverbs (%s-1) unstable; urgency=medium\n\n  * Release %s. changelog.gz has the "+
		"changes.\n\n"+
		" -- %s <>  %s\n", plan.PackageVersion(j.Version), j.Version, holder, j.time.Format("Mon, 02 Jan 2006 15:04:05 +0000"))
	return append(list, file{doc + "copyright", []byte(copyright), 0o644},
		file{doc + "changelog.gz", squeeze(changelog), 0o644},
		file{doc + "changelog.Debian.gz", squeeze([]byte(history)), 0o644},
		file{doc + "THIRD-PARTY-NOTICES.gz", squeeze(notices), 0o644}), nil
}

// pkg writes a package.
func (j *job) pkg(arch, format string, list []file) error {
	name := plan.PackageName(j.Version, arch, format)
	root := filepath.Join(j.work, "package", name)
	info := &nfpm.Info{
		Name: "pureverbs", Arch: arch, Platform: "linux",
		Version: plan.PackageVersion(j.Version), VersionSchema: "none", Release: "1",
		Section: "net", Priority: "optional", Maintainer: holder, Vendor: holder, Homepage: "https://" + plan.Module,
		License: "Apache-2.0", MTime: j.time, DisableGlobbing: true,
		Description: "measure RDMA networks, list GIDs, emulate RDMA adapters\n" +
			"rdmaperf measures bandwidth and latency between hosts, also with perftest at\n" +
			"the other end, checks hosts, and measures all pairs of a cluster. show_gids\n" +
			"lists the GIDs of RDMA devices. emu runs programs on emulated adapters.",
	}
	switch format {
	case "deb":
		info.Depends = []string{"libc6"}
		info.Recommends = []string{"libibverbs1", "ibverbs-providers", "librdmacm1t64 | librdmacm1"}
		info.Deb.Compression = "xz"
	case "rpm":
		info.Depends = []string{"glibc"}
		info.Recommends = []string{"libibverbs", "librdmacm"}
		info.RPM.BuildHost, info.RPM.Summary = "localhost", "Measure RDMA networks, list GIDs, emulate RDMA adapters"
		info.RPM.Group = "Applications/System"
	}
	for _, f := range list {
		from := filepath.Join(root, f.name)
		if err := os.MkdirAll(filepath.Dir(from), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(from, f.text, 0o644); err != nil {
			return err
		}
		kind := ""
		if format == "rpm" && strings.Contains(f.name, "/licenses/") {
			kind = files.TypeRPMLicense
		}
		if format == "rpm" && (strings.Contains(f.name, "/doc/") || strings.Contains(f.name, "/man/")) {
			kind = files.TypeRPMDoc
		}
		info.Contents = append(info.Contents, &files.Content{Source: from, Destination: f.name, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: os.FileMode(f.mode), MTime: j.time}})
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(j.dist, name), b.Bytes(), 0o644)
}

// squeeze compresses as gzip -9n does.
func squeeze(text []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
	_, _ = z.Write(text) // a Buffer takes all
	_ = z.Close()
	return b.Bytes()
}
