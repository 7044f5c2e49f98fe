#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# tshark must dissect every frame as InfiniBand and complain about none.
# usage: tshark_oracle.sh WIRE_FRAMES | --capture FILE
set -euo pipefail
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
if [ "$1" = --capture ]; then
  cp "$2" "$directory/frames.pcap"
else
  "$1" "$directory/frames.pcap"
fi
# Payloads are random here, and what tshark guesses from them is not our business.
guesses=$(tshark -G heuristic-decodes 2>/dev/null | awk -F'\t' '$1 == "infiniband.payload" {print "--disable-protocol", $2}')
# shellcheck disable=SC2086
count() { tshark -n $guesses -r "$directory/frames.pcap" -Y "$1" -T fields -e frame.number 2>/dev/null | wc -l; }
all=$(count 'udp.dstport == 4791')
dissected=$(count 'infiniband.bth')
bad=$(count '_ws.malformed or _ws.expert.severity >= 6291456')
echo "$all frames, $dissected dissected as InfiniBand, $bad with complaints"
[ "$all" -gt 10 ] && [ "$dissected" -eq "$all" ] && [ "$bad" -eq 0 ]
