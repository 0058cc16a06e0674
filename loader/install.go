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

// distributions lists the packages that contain all libraries: a program that lacks one usually lacks the others.
var distributions = []struct {
	name, ids         string // ids: of /etc/os-release
	packages, command string
}{
	{"Debian, Ubuntu", "debian ubuntu", "libibverbs1 ibverbs-providers librdmacm1", "apt-get install"},
	{"Fedora, RHEL", "fedora rhel centos", "libibverbs librdmacm", "dnf install"},
	{"SUSE", "suse opensuse sles", "libibverbs1 libibverbs librdmacm1 libmlx5-1", "zypper install"},
	{"Alpine", "alpine", "rdma-core", "apk add"},
	{"Arch", "arch", "rdma-core", "pacman -S"},
}

// packages returns the packages that contain the libraries. The first is for the distribution that osRelease, the text
// of /etc/os-release, describes.
func packages(osRelease string) []Package {
	var here, others []Package
	for _, d := range distributions {
		p := Package{d.name, d.packages}
		if isDistribution(osRelease, d.ids) {
			here = append(here, p)
		} else {
			others = append(others, p)
		}
	}
	return append(here, others...)
}

// command returns the command that installs the libraries on the distribution that osRelease describes, "" for one that
// is not known.
func command(osRelease string) string {
	for _, d := range distributions {
		if isDistribution(osRelease, d.ids) {
			return d.command + " " + d.packages
		}
	}
	return ""
}

// isDistribution reports whether osRelease has one of these names.
func isDistribution(osRelease, ids string) bool {
	have := strings.Fields(osID(osRelease))
	return slices.ContainsFunc(strings.Fields(ids), func(id string) bool { return slices.Contains(have, id) })
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
