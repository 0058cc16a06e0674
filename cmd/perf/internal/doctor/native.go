package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/loader"
)

// checkNative sends a message through each active port of a device without libraries, and compares the attributes with
// the library's.
func (x *examination) checkNative(d *Device) {
	if x.Native == nil {
		return
	}
	own, err := x.Native.Attributes(d.Name)
	if err != nil {
		x.broken(d.Name, "the attributes cannot be queried without libraries", err)
		return
	}
	for _, p := range d.Ports {
		if !p.Active() {
			continue
		}
		port := fmt.Sprintf("%s/%d", d.Name, p.Number)
		if err := x.Native.Loop(d.Name, p.Number); err != nil {
			x.broken(port, "a message of the port to itself failed without libraries", err)
			continue
		}
		x.add(Finding{Subject: port, Check: "native", Text: "a message of the port to itself arrived without libraries",
			Evidence: "a QP of type RC that is connected to itself"})
	}
	library, err := x.byLibrary(d.Name)
	if err != nil {
		x.add(Finding{Severity: Note, Subject: d.Name, Check: "native",
			Text: "there is no library to compare the attributes with", Evidence: err.Error()})
		return
	}
	x.differ(d.Name, own, library)
}

// byLibrary returns the attributes that the library has of a device.
func (x *examination) byLibrary(device string) (Attributes, error) {
	for _, l := range x.Libraries.Libraries {
		if l.Name == loader.IBVerbs && l.Error != "" {
			return nil, errors.New(l.Error)
		}
	}
	devices, err := x.Native.Library()
	if err != nil {
		return nil, err
	}
	a, ok := devices[device]
	if !ok {
		return nil, errors.New("libibverbs does not list the device")
	}
	return a, nil
}

func (x *examination) broken(subject, text string, err error) {
	x.add(Finding{Severity: Error, Subject: subject, Check: "native", Text: text, Evidence: err.Error(),
		Remedy: ibv.ControlEnv + "=library    # uses libibverbs instead"})
}

// differ reports attributes that the two control paths do not agree on.
func (x *examination) differ(device string, native, library Attributes) {
	all := maps.Clone(native)
	maps.Copy(all, library)
	const none = "nothing"
	for _, name := range slices.Sorted(maps.Keys(all)) {
		n, l := none, none
		if v, ok := native[name]; ok {
			n = v
		}
		if v, ok := library[name]; ok {
			l = v
		}
		if n != l {
			x.add(Finding{Severity: Warning, Subject: device, Check: "native",
				Text:     fmt.Sprintf("%s is %s natively, and %s by the library", name, n, l),
				Evidence: "queries by both control paths",
				Remedy:   ibv.ControlEnv + "=library    # uses libibverbs; report the difference"})
			delete(all, name)
		}
	}
	if same := len(all); same > 0 {
		x.add(Finding{Subject: device, Check: "native",
			Text: fmt.Sprintf("%d attributes are the library's", same), Evidence: "queries by both control paths"})
	}
}
