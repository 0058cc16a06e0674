package mlx5dv

import (
	"github.com/pureverbs/pureverbs/internal/flags"
)

var contextFlagNames = []string{"CQEVersion1", "", "MPWAllowed", "EnhancedMPW", "CQE128Compression", "CQE128Padding",
	"PacketBasedCredits", "RealTimeTimestamps", "BlueFlame"}

// String joins the names with "|".
func (f DeviceFlags) String() string { return flags.String(f, contextFlagNames) }

var featureNames = []string{"CQECompression", "SWParsing", "StridingRQ", "TunnelOffloads", "DynamicBFRegs",
	"ClockInfoUpdate", "FlowActions", "DCODP", "HCACoreClock",
	"LAGPorts", "Signature", "DCIStreams", "WRMemcpy", "Crypto", "DCRdAtom", "RegC0", "OOORecv"}

// String joins the names with "|".
func (f Features) String() string { return flags.String(f, featureNames) }

var cqeFormatNames = []string{"Hash", "Checksum", "ChecksumStride"}

// String joins the names with "|".
func (f CQEFormats) String() string { return flags.String(f, cqeFormatNames) }

var swParsingNames = []string{"Parse", "Checksum", "LSO"}

// String joins the names with "|".
func (f SWParsing) String() string { return flags.String(f, swParsingNames) }

var tunnelOffloadNames = []string{"VXLAN", "GRE", "GENEVE", "MPLSOverGRE", "MPLSOverUDP"}

// String joins the names with "|".
func (f TunnelOffloads) String() string { return flags.String(f, tunnelOffloadNames) }

var flowActionNames = []string{"ESPAESGCM", "ESPAESGCMReqMetadata", "ESPAESGCMSPISteering", "ESPAESGCMFullOffload",
	"ESPAESGCMTXIVIsESN"}

// String joins the names with "|".
func (f FlowActions) String() string { return flags.String(f, flowActionNames) }

var sigProtectionNames = []string{"T10DIF", "CRC"}

// String joins the names with "|".
func (f SigProtections) String() string { return flags.String(f, sigProtectionNames) }

var t10DIFGuardNames = []string{"CRC", "Checksum"}

// String joins the names with "|".
func (f T10DIFGuards) String() string { return flags.String(f, t10DIFGuardNames) }

var crcNames = []string{"CRC32", "CRC32C", "CRC64XP10"}

// String joins the names with "|".
func (f CRCs) String() string { return flags.String(f, crcNames) }

var blockSizeNames = []string{"512", "520", "4048", "4096", "4160"}

// String joins the sizes with "|".
func (f BlockSizes) String() string { return flags.String(f, blockSizeNames) }

var cryptoEngineNames = []string{"AESXTS", "AESXTSSingleBlock", "AESXTSMultiBlock"}

// String joins the names with "|".
func (f CryptoEngines) String() string { return flags.String(f, cryptoEngineNames) }

var cryptoImportNames = []string{"AESXTS"}

// String joins the names with "|".
func (f CryptoImports) String() string { return flags.String(f, cryptoImportNames) }

var cryptoFlagNames = []string{"Crypto", "WrappedOperational", "WrappedCommissioning"}

// String joins the names with "|".
func (f CryptoFlags) String() string { return flags.String(f, cryptoFlagNames) }

var qpCreateFlagNames = []string{"TunnelOffloaded", "SelfLoopbackUnicast", "SelfLoopbackMulticast",
	"DisableScatterToCQE", "AllowScatterToCQE", "PacketBasedCreditMode",
	"SignaturePipelining", "OutOfOrderData"}

// String joins the names with "|".
func (f QPCreateFlags) String() string { return flags.String(f, qpCreateFlagNames) }
