package doctor

import (
	"cmp"
	"strings"

	"github.com/pureverbs/pureverbs/loader"
)

// packages are Debian's, by library.
var packages = map[loader.Name]string{
	loader.IBVerbs: "apt install libibverbs1 ibverbs-providers    # RHEL: dnf install libibverbs",
	loader.RDMACM:  "apt install librdmacm1    # RHEL: dnf install librdmacm",
}

// Versions returns the versions of the libraries that are there, by name.
func Versions() map[string]string {
	v := map[string]string{}
	for _, l := range loader.Report().Libraries {
		if l.Error == "" {
			v[string(l.Name)] = cmp.Or(l.Version, "unknown")
		}
	}
	return v
}

func (x *examination) libraries() {
	x.Libraries = x.Load()
	for _, l := range x.Libraries.Libraries {
		f := Finding{Subject: "host", Check: "library", Text: string(l.Name) + " " + l.Version, Evidence: l.Path}
		if l.Error != "" {
			f.Severity, f.Evidence, f.Remedy = Warning, l.Error, packages[l.Name]
			f.Text = string(l.Name) + " cannot be loaded; only -R needs it"
			if l.Name == loader.IBVerbs {
				x.noVerbs = true
				f.Severity, f.Text = Error, string(l.Name)+" cannot be loaded: no program can use RDMA"
			}
			if strings.Contains(l.Error, "PUREVERBS_LIBRARY_PATH") {
				f.Remedy = "unset PUREVERBS_LIBRARY_PATH"
			}
			x.add(f)
			continue
		}
		if l.Version == "" {
			f.Text += "of unknown version"
		}
		x.add(f)
	}
	if n := len(x.Libraries.Ignored); n > 0 {
		x.add(Finding{Severity: Note, Subject: "host", Check: "library", Text: "environment variables are not followed",
			Evidence: strings.Join(x.Libraries.Ignored, " ")})
	}
	if x.noVerbs {
		return
	}
	if err := x.Unlisted(); err != nil {
		x.add(Finding{Severity: Error, Subject: "host", Check: "provider", Text: "devices have no driver in libibverbs",
			Evidence: err.Error(), Remedy: "apt install ibverbs-providers    # of the same release as libibverbs1"})
	}
}
