package loader

import (
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/solib"
)

// Package names the packages to install on a distribution.
type Package struct {
	Distribution string `json:"distribution"`
	Packages     string `json:"packages"` // separated by spaces
}

var distributions = []struct {
	name, ids            string // ids: of /etc/os-release
	ibverbs, rdmacm, mlx string
	command              string // installs packages
}{
	{"Debian, Ubuntu", "debian ubuntu", "libibverbs1 ibverbs-providers", "librdmacm1 ibverbs-providers",
		"ibverbs-providers", "apt-get install"},
	{"Fedora, RHEL", "fedora rhel centos", "libibverbs", "librdmacm", "libibverbs", "dnf install"},
	{"SUSE", "suse opensuse sles", "libibverbs1 libibverbs", "librdmacm1 libibverbs", "libmlx5-1 libibverbs",
		"zypper install"},
	{"Alpine", "alpine", "rdma-core", "rdma-core", "rdma-core", "apk add"},
	{"Arch", "arch", "rdma-core", "rdma-core", "rdma-core", "pacman -S"},
}

// packages returns the packages that contain the library. The first is for the distribution that
// osRelease, the text of /etc/os-release, describes.
func packages(name Name, osRelease string) []Package {
	ids := strings.Fields(osID(osRelease))
	var here, others []Package
	for _, d := range distributions {
		p := Package{Distribution: d.name}
		switch name {
		case IBVerbs:
			p.Packages = d.ibverbs
		case RDMACM:
			p.Packages = d.rdmacm
		case MLX5:
			p.Packages = d.mlx
		case EFA:
			p.Packages = d.ibverbs
		default:
			return nil
		}
		if slices.ContainsFunc(strings.Fields(d.ids), func(id string) bool { return slices.Contains(ids, id) }) {
			here = append(here, p)
		} else {
			others = append(others, p)
		}
	}
	return append(here, others...)
}

// command returns the command that installs the library on the distribution that osRelease describes, "" for one that
// is not known.
func command(name Name, osRelease string) string {
	p, ids := packages(name, osRelease), strings.Fields(osID(osRelease))
	for _, d := range distributions {
		if slices.ContainsFunc(strings.Fields(d.ids), func(id string) bool { return slices.Contains(ids, id) }) {
			return d.command + " " + p[0].Packages
		}
	}
	return ""
}

// osID returns ID and ID_LIKE of /etc/os-release.
func osID(text string) string {
	var ids []string
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		if k == "ID" || k == "ID_LIKE" {
			ids = append(ids, strings.Trim(v, `"'`))
		}
	}
	return strings.Join(ids, " ")
}

func osRelease() string {
	for _, f := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if b, err := solib.ReadFile(f); err == nil {
			return string(b)
		}
	}
	return ""
}
