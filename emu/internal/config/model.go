package config

import (
	"fmt"
	"strings"
)

// Model is a kind of adapter, as its identifiers tell it.
type Model struct {
	Name     string
	Alias    string // as flags spell it
	VendorID uint32 // IEEE OUI: ibv_device_attr.vendor_id
	PCI      uint16 // PCI device of vendor 0x15b3; also vendor_part_id
	HWVer    uint32
	Firmware string
	PSID     string
	Width    Width // of a port, like Speed
	Speed    Speed
}

// PCIVendor is the PCI vendor of all models.
const PCIVendor = 0x15b3

// models is matched by libmlx5 on the PCI id alone. Firmware releases and board ids are of real cards.
var models = []Model{
	{"ConnectX-5", "cx5", 0x2c9, 0x1017, 0, "16.35.3006", "MT_0000000080", Width4X, SpeedEDR},
	{"ConnectX-5 Ex", "cx5ex", 0x2c9, 0x1019, 0, "16.35.3006", "MT_0000000008", Width4X, SpeedEDR},
	{"ConnectX-6", "cx6", 0x2c9, 0x101b, 0, "20.39.1002", "MT_0000000223", Width4X, SpeedHDR},
	{"ConnectX-6 Dx", "cx6dx", 0x2c9, 0x101d, 0, "22.39.1002", "MT_0000000359", Width4X, SpeedEDR},
	{"ConnectX-6 Lx", "cx6lx", 0x2c9, 0x101f, 0, "26.39.1002", "MT_0000000531", Width1X, SpeedEDR},
	{"ConnectX-7", "cx7", 0x2c9, 0x1021, 0, "28.39.1002", "MT_0000000838", Width4X, SpeedNDR},
	{"BlueField-2", "bf2", 0x2c9, 0xa2d6, 1, "24.39.1002", "MT_0000000765", Width4X, SpeedEDR},
	{"BlueField-3", "bf3", 0x2c9, 0xa2dc, 1, "32.39.1002", "MT_0000000884", Width4X, SpeedNDR},
}

// ModelByName finds a model by its name or alias, whatever the case.
func ModelByName(s string) (Model, error) {
	var all []string
	for _, m := range models {
		if fold(s) == fold(m.Name) || fold(s) == m.Alias {
			return m, nil
		}
		all = append(all, m.Alias)
	}
	return Model{}, fmt.Errorf("model %q is none of %s", clip(s), strings.Join(all, ", "))
}

// ModelByPCI finds the model of a PCI device id.
func ModelByPCI(id uint16) (Model, bool) {
	for _, m := range models {
		if m.PCI == id {
			return m, true
		}
	}
	return Model{}, false
}
