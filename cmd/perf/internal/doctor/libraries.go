package doctor

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/provider"
	"github.com/pureverbs/pureverbs/internal/sysfs"
	"github.com/pureverbs/pureverbs/loader"
)

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
	unlisted := x.Unlisted() // libibverbs loads its providers now: Load reports which
	x.Libraries = x.Load()
	for _, l := range x.Libraries.Libraries {
		f := Finding{Subject: "host", Check: "library", Text: string(l.Name) + " " + l.Version, Evidence: l.Path}
		if x.noVerbs && strings.Contains(l.Error, string(loader.IBVerbs)) {
			continue // the same cause
		}
		if l.Error != "" && x.native() {
			f.Text, f.Evidence = string(l.Name)+" is not used: "+x.Libraries.Control, l.Error
			x.add(f)
			continue
		}
		if l.Error != "" {
			f.Severity, f.Evidence, f.Remedy = Warning, l.Error, l.Remedy
			f.Text = string(l.Name) + " cannot be loaded; only -R needs it"
			if l.Name == loader.IBVerbs {
				x.noVerbs = true
				f.Severity, f.Text = Error, string(l.Name)+" cannot be loaded: no program can use RDMA"
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
	if !x.noVerbs {
		x.providers(unlisted)
	}
}

// native reports whether all devices are driven without libraries.
func (x *examination) native() bool { return strings.HasPrefix(x.Libraries.Control, "native") }

// providers reports the devices that libibverbs leaves out, except for reasons that other checks report.
func (x *examination) providers(err error) {
	var u *ibv.UnlistedError
	if !errors.As(err, &u) {
		if err != nil {
			x.add(Finding{Severity: Error, Subject: "host", Check: "provider", Text: "the devices cannot be listed",
				Evidence: err.Error(), Remedy: "ibv_devices"})
		}
		return
	}
	for _, d := range u.Devices {
		dev, err := x.Facts.Device(d.Name)
		if err == nil && (dev.Uverbs == "" || x.Access(filepath.Join(x.Dev, "infiniband", dev.Uverbs)) != nil) {
			continue
		}
		x.unlisted[d.Name] = true
		if x.native() {
			x.add(Finding{Severity: Error, Subject: d.Name, Check: "provider",
				Text: "the native control path does not drive the device", Evidence: d.Reason,
				Remedy: "unset " + ibv.ControlEnv + "    # and an rdmaperf with libraries, without --native"})
			continue
		}
		x.add(Finding{Severity: Error, Subject: d.Name, Check: "provider",
			Text: "the device has no driver in libibverbs", Evidence: d.Reason, Remedy: x.providerRemedy(d)})
	}
}

// providerRemedy returns the way to a driver of libibverbs for a device.
func (x *examination) providerRemedy(d ibv.UnlistedDevice) string {
	name := provider.Of(sysfs.Device{Name: d.Name, Driver: d.Driver})
	for _, p := range x.Libraries.Providers {
		_, way, _ := strings.Cut(p.Problem, ": ")
		switch {
		case name != p.Name:
		case p.Loaded:
			return x.install() + "    # a newer release: this one does not know the device"
		case p.Problem == "":
			return "ibv_devices    # prints why; LD_LIBRARY_PATH and RDMAV_DRIVERS may be the cause"
		case p.Path != "":
			return cmp.Or(way, x.install()+"    # reinstall "+p.Path)
		}
	}
	return x.install()
}
