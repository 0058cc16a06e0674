package loader

import "github.com/pureverbs/pureverbs/internal/provider"

// Package names the packages to install on a distribution.
type Package struct {
	Distribution string `json:"distribution"`
	Packages     string `json:"packages"` // separated by spaces
}

// packages returns the packages that contain the libraries. The first is for the distribution that osRelease, the text
// of /etc/os-release, describes.
func packages(osRelease string) (list []Package) {
	for _, d := range provider.Distributions(osRelease) {
		list = append(list, Package{d.Name, d.Packages})
	}
	return list
}
