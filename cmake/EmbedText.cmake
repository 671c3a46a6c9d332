# cmake -DOUT=FILE -DIN=FILES -P EmbedText.cmake: FILES, one after the other, as one
# C++ string of short raw literals.
file(WRITE ${OUT} "")
foreach(file ${IN})
  file(READ ${file} text)
  string(LENGTH "${text}" length)
  set(start 0)
  while(start LESS length)
    # Compilers bound the length of one literal.
    string(SUBSTRING "${text}" ${start} 8000 part)
    file(APPEND ${OUT} "R\"EMBEDDED(${part})EMBEDDED\"\n")
    math(EXPR start "${start} + 8000")
  endwhile()
endforeach()
