package provider

import (
	"slices"
	"strings"

	"github.com/pureverbs/pureverbs/internal/solib"
)

// Distribution has packages that contain the libraries.
type Distribution struct {
	Name, ids         string // ids: of /etc/os-release
	Packages, command string
}

// distributions lists the packages that contain all libraries: a program that lacks one usually lacks the others.
var distributions = []Distribution{
	{"Debian, Ubuntu", "debian ubuntu", "libibverbs1 ibverbs-providers librdmacm1", "apt-get install"},
	{"Fedora, RHEL", "fedora rhel centos", "libibverbs librdmacm", "dnf install"},
	{"SUSE", "suse opensuse sles", "libibverbs1 libibverbs librdmacm1 libmlx5-1", "zypper install"},
	{"Alpine", "alpine", "rdma-core", "apk add"},
	{"Arch", "arch", "rdma-core", "pacman -S"},
}

// Distributions returns all distributions. The first is the one that osRelease, the text of /etc/os-release, describes.
func Distributions(osRelease string) []Distribution {
	var here, others []Distribution
	for _, d := range distributions {
		if d.is(osRelease) {
			here = append(here, d)
		} else {
			others = append(others, d)
		}
	}
	return append(here, others...)
}

// Command returns the command that installs the libraries on the distribution that osRelease describes, "" for one that
// is not known.
func Command(osRelease string) string {
	if d := Distributions(osRelease)[0]; d.is(osRelease) {
		return d.command + " " + d.Packages
	}
	return ""
}

// install returns the command of this host, or what to install.
func install() string {
	if c := Command(OSRelease()); c != "" {
		return c
	}
	return "install ibverbs-providers (Debian, Ubuntu), libibverbs (Fedora, RHEL, SUSE) or rdma-core (others)"
}

// is reports whether osRelease has one of the distribution's names in ID or ID_LIKE.
func (d Distribution) is(osRelease string) bool {
	var have []string
	for line := range strings.Lines(osRelease) {
		if k, v, _ := strings.Cut(strings.TrimSpace(line), "="); k == "ID" || k == "ID_LIKE" {
			have = append(have, strings.Fields(strings.Trim(v, `"'`))...)
		}
	}
	return slices.ContainsFunc(strings.Fields(d.ids), func(id string) bool { return slices.Contains(have, id) })
}

// OSRelease returns the text of /etc/os-release of this host.
func OSRelease() string {
	for _, f := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if b, err := solib.ReadFile(f); err == nil {
			return string(b)
		}
	}
	return ""
}
