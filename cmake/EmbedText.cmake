# SPDX-License-Identifier: MIT
# cmake -DIN=file -DOUT=header -DNAME=symbol -P EmbedText.cmake
file(READ "${IN}" text)
string(REGEX REPLACE "^-- SPDX[^\n]*\n" "" text "${text}")
string(REPLACE "\\" "\\\\" text "${text}")
string(REPLACE "\"" "\\\"" text "${text}")
string(REPLACE "\n" "\\n\"\n\"" text "${text}")
file(WRITE "${OUT}" "static const char ${NAME}[] =\n\"${text}\";\n")
