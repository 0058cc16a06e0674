package mlx5dv

import (
	"fmt"
	"strings"
)

// flagString joins the names of the set bits with "|". Bits without a name come
// last, as one number; no bits at all are "0".
func flagString[T ~uint8 | ~uint16 | ~uint32 | ~uint64](v T, names []string) string {
	if v == 0 {
		return "0"
	}
	var parts []string
	for i, name := range names {
		if bit := T(1) << i; v&bit != 0 && name != "" {
			parts = append(parts, name)
			v &^= bit
		}
	}
	if v != 0 {
		parts = append(parts, fmt.Sprintf("%#x", uint64(v)))
	}
	return strings.Join(parts, "|")
}

var contextFlagNames = []string{"CQEVersion1", "", "MPWAllowed", "EnhancedMPW", "CQE128Compression", "CQE128Padding", "PacketBasedCredits", "RealTimeTimestamps", "BlueFlame"}

// String joins the names with "|".
func (f DeviceFlags) String() string { return flagString(f, contextFlagNames) }

var featureNames = []string{"CQECompression", "SWParsing", "StridingRQ", "TunnelOffloads", "DynamicBFRegs", "ClockInfoUpdate", "FlowActions", "DCODP", "HCACoreClock",
	"LAGPorts", "Signature", "DCIStreams", "WRMemcpy", "Crypto", "DCRdAtom", "RegC0", "OOORecv"}

// String joins the names with "|".
func (f Features) String() string { return flagString(f, featureNames) }

var cqeFormatNames = []string{"Hash", "Checksum", "ChecksumStride"}

// String joins the names with "|".
func (f CQEFormats) String() string { return flagString(f, cqeFormatNames) }

var swParsingNames = []string{"Parse", "Checksum", "LSO"}

// String joins the names with "|".
func (f SWParsing) String() string { return flagString(f, swParsingNames) }

var tunnelOffloadNames = []string{"VXLAN", "GRE", "GENEVE", "MPLSOverGRE", "MPLSOverUDP"}

// String joins the names with "|".
func (f TunnelOffloads) String() string { return flagString(f, tunnelOffloadNames) }

var flowActionNames = []string{"ESPAESGCM", "ESPAESGCMReqMetadata", "ESPAESGCMSPISteering", "ESPAESGCMFullOffload", "ESPAESGCMTXIVIsESN"}

// String joins the names with "|".
func (f FlowActions) String() string { return flagString(f, flowActionNames) }

var sigProtectionNames = []string{"T10DIF", "CRC"}

// String joins the names with "|".
func (f SigProtections) String() string { return flagString(f, sigProtectionNames) }

var t10DIFGuardNames = []string{"CRC", "Checksum"}

// String joins the names with "|".
func (f T10DIFGuards) String() string { return flagString(f, t10DIFGuardNames) }

var crcNames = []string{"CRC32", "CRC32C", "CRC64XP10"}

// String joins the names with "|".
func (f CRCs) String() string { return flagString(f, crcNames) }

var blockSizeNames = []string{"512", "520", "4048", "4096", "4160"}

// String joins the sizes with "|".
func (f BlockSizes) String() string { return flagString(f, blockSizeNames) }

var cryptoEngineNames = []string{"AESXTS", "AESXTSSingleBlock", "AESXTSMultiBlock"}

// String joins the names with "|".
func (f CryptoEngines) String() string { return flagString(f, cryptoEngineNames) }

var cryptoImportNames = []string{"AESXTS"}

// String joins the names with "|".
func (f CryptoImports) String() string { return flagString(f, cryptoImportNames) }

var cryptoFlagNames = []string{"Crypto", "WrappedOperational", "WrappedCommissioning"}

// String joins the names with "|".
func (f CryptoFlags) String() string { return flagString(f, cryptoFlagNames) }

var qpCreateFlagNames = []string{"TunnelOffloaded", "SelfLoopbackUnicast", "SelfLoopbackMulticast", "DisableScatterToCQE", "AllowScatterToCQE", "PacketBasedCreditMode",
	"SignaturePipelining", "OutOfOrderData"}

// String joins the names with "|".
func (f QPCreateFlags) String() string { return flagString(f, qpCreateFlagNames) }
